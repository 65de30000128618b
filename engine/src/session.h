// One run of the engine: load, warm up, measure, with every stage told to the event stream.
#pragma once

#include <cstdio>
#include <memory>

#include "decoder.h"
#include "model_file.h"
#include "options.h"
#include "stage.h"
#include "tokenizer.h"

namespace farm {

class Session {
public:
    Session(const Options & options, Events & events, Faults & faults);
    ~Session();

    void load();
    void run();  // warm-up and measured iterations

private:
    struct Timing;
    void say_model() const;
    void say_memory(int iteration) const;
    void say_ops(int iteration);
    void say_experts(int iteration);
    void warm_up(int iteration);
    void measure(int iteration);
    int64_t prefill(int iteration, Timing & timing);
    void decode(int iteration, Timing & timing);
    void evaluate_prompt(double slowness);
    bool accept(Timing & timing, int iteration, int64_t begin_us);  // false: the sequence has ended
    void say_result(int iteration, const Timing & timing) const;
    void write_logits();

    const Options & options_;
    Events & events_;
    Faults & faults_;
    std::unique_ptr<ModelFile> file_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<Decoder> decoder_;
    std::vector<int32_t> prompt_;
    FILE * logits_file_ = nullptr;
};

}  // namespace farm
