#include "session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "clock.h"
#include "errors.h"

namespace farm {

// What one measured iteration yields. Absent: did not take place.
struct Session::Timing {
    std::vector<int32_t> tokens;
    std::string text;
    std::optional<int64_t> ttft_us, prefill_us, decode_us;
    int64_t decoded = 0;  // tokens that the decode stage evaluated
};

Session::Session(const Options & options, Events & events, Faults & faults)
    : options_(options), events_(events), faults_(faults) {
    if (!options.dump_logits.empty()) {
        logits_file_ = std::fopen(options.dump_logits.c_str(), "wbe");
        if (logits_file_ == nullptr) {
            throw EngineError(ExitCode::io, "cannot open " + options.dump_logits + ": " + std::strerror(errno));
        }
    }
}

Session::~Session() {
    if (logits_file_ != nullptr) {
        std::fclose(logits_file_);
    }
}

void Session::load() {
    {
        Stage stage(events_, faults_, "load.open", 0);
        file_ = std::make_unique<ModelFile>(options_.model);
        stage.end();
    }
    say_model();
    {
        Stage stage(events_, faults_, "load.map", 0);
        weights_ = std::make_unique<Weights>(*file_);
        stage.counters.add("bytes_mapped", weights_->mapped_bytes());
        stage.end();
    }
    {
        Stage stage(events_, faults_, "load.tokenizer", 0);
        tokenizer_ = std::make_unique<Tokenizer>(file_->gguf(), file_->params().n_vocab);
        prompt_ = options_.has_prompt ? tokenizer_->encode(options_.prompt)
                                      : tokenizer_->made_up(options_.prompt_tokens, static_cast<uint64_t>(options_.seed));
        stage.counters.add("tokens", static_cast<uint64_t>(prompt_.size()));
        stage.end();
    }
    if (prompt_.empty()) {
        throw EngineError(ExitCode::usage, "the prompt is empty");
    }
    if (options_.ctx > file_->params().n_ctx_train) {
        throw EngineError(ExitCode::usage, "--ctx " + std::to_string(options_.ctx) + " is more than the model's " +
                                               std::to_string(file_->params().n_ctx_train));
    }
    if (static_cast<int64_t>(prompt_.size()) + options_.n_predict > options_.ctx) {
        throw EngineError(ExitCode::usage, "prompt (" + std::to_string(prompt_.size()) + " tokens) and --n-predict " +
                                               std::to_string(options_.n_predict) + " do not fit into --ctx " +
                                               std::to_string(options_.ctx));
    }
    {
        Stage stage(events_, faults_, "load.init", 0);
        decoder_ = std::make_unique<Decoder>(*file_, *weights_, static_cast<int>(options_.threads), options_.ctx,
                                             options_.batch, events_);
        stage.end();
    }
    JsonObject backend;
    backend.add("name", decoder_->backend().name()).add("why", "the only backend in this build");
    events_.emit("backend", backend.add("features", cpu_kernel_features()).add("threads", options_.threads));
    say_memory(-1);
}

void Session::run() {
    for (int i = 0; i < options_.warmup; i++) {
        warm_up(i);
    }
    for (int i = 0; i < options_.repeat; i++) {
        measure(i);
    }
}

void Session::say_model() const {
    const HyperParameters & p = file_->params();
    JsonObject fields;
    fields.add("name", file_->name()).add("bytes", file_->bytes()).add("params", file_->n_params());
    fields.add("weight_type", file_->weight_type()).add("ctx", options_.ctx).add("ctx_train", p.n_ctx_train);
    fields.add("architecture", p.architecture).add("layers", p.n_layer).add("embedding", p.n_embd);
    fields.add("feed_forward", p.n_ff).add("heads", p.n_head).add("heads_kv", p.n_head_kv).add("vocabulary", p.n_vocab);
    if (p.n_expert > 0) {
        fields.add("experts", p.n_expert).add("experts_used", p.n_expert_used);
    }
    events_.emit("model", fields);
}

void Session::say_memory(int iteration) const {
    const MemoryUse use = memory_use();
    JsonObject fields;
    iteration < 0 ? fields.add_null("iteration") : fields.add("iteration", iteration);
    fields.add("rss_kb", use.rss_kb).add("hwm_kb", use.hwm_kb).add("pss_kb", use.pss_kb);
    fields.add("kv_bytes", decoder_->cache().bytes()).add("weights_bytes", weights_->weight_bytes());
    events_.emit("memory", fields.add("compute_bytes", decoder_->backend().compute_bytes()));
}

void Session::say_ops(int iteration) {
    JsonObject by_backend;
    by_backend.add_raw(decoder_->backend().name(), decoder_->backend().take_op_counts());
    events_.emit("ops", JsonObject().add("iteration", iteration).add_raw("ops", by_backend.str()));
}

// How many tokens each expert got: which ones a device could do without shows here.
void Session::say_experts(int iteration) {
    std::vector<std::string> layers;
    for (const std::vector<uint64_t> & counts : decoder_->take_expert_counts()) {
        std::vector<std::string> items;
        for (const uint64_t count : counts) {
            items.push_back(std::to_string(count));
        }
        layers.push_back(json_array(items));
    }
    if (!layers.empty()) {
        events_.emit("experts", JsonObject().add("iteration", iteration).add_raw("tokens", json_array(layers)));
    }
}

void Session::evaluate_prompt(double slowness) {
    const int64_t total = static_cast<int64_t>(prompt_.size());
    for (int64_t done = 0; done < total;) {
        const int64_t n = std::min(options_.batch, total - done);
        const int64_t cpu = process_cpu_us();
        decoder_->evaluate(prompt_.data() + done, n, done);
        slow_down(slowness, cpu, [this] { decoder_->evaluate_again(); }, [this] { events_.tick(); });
        done += n;
        events_.set_progress(done, total);
        events_.tick();
    }
}

void Session::warm_up(int iteration) {
    Stage stage(events_, faults_, "warmup", iteration);
    evaluate_prompt(1.0);
    const int64_t past = static_cast<int64_t>(prompt_.size());
    for (int64_t i = 1; i < options_.n_predict; i++) {
        const int32_t id = decoder_->most_likely();
        decoder_->evaluate(&id, 1, past + i - 1);
        events_.set_progress(i, options_.n_predict);
        events_.tick();
    }
    stage.counters.add("tokens", past + std::max<int64_t>(options_.n_predict - 1, 0));
    stage.counters.add("weight_bytes_touched", decoder_->take_weight_bytes_touched());
    stage.end();
    decoder_->backend().take_op_counts();
    decoder_->take_expert_counts();
}

void Session::measure(int iteration) {
    Timing timing;
    const int64_t begin = prefill(iteration, timing);
    if (options_.n_predict > 0 && accept(timing, iteration, begin) && options_.n_predict > 1) {
        decode(iteration, timing);
    }
    say_ops(iteration);
    say_experts(iteration);
    say_memory(iteration);
    say_result(iteration, timing);
}

// Returns when the stage began.
int64_t Session::prefill(int iteration, Timing & timing) {
    Stage stage(events_, faults_, "prefill", iteration);
    const int64_t begin = monotonic_us();
    evaluate_prompt(faults_.slowness("prefill"));
    stage.counters.add("tokens", static_cast<uint64_t>(prompt_.size()));
    stage.counters.add("weight_bytes_touched", decoder_->take_weight_bytes_touched());
    timing.prefill_us = stage.end(/*already_slowed=*/true);
    return begin;
}

void Session::decode(int iteration, Timing & timing) {
    Stage stage(events_, faults_, "decode", iteration);
    const double slowness = faults_.slowness("decode");
    bool open = true;
    // From the end of one token's slowing to the end of the next one's: all that a token costs is slowed, not only the
    // evaluation.
    int64_t cpu = process_cpu_us();
    while (open && static_cast<int64_t>(timing.tokens.size()) < options_.n_predict) {
        const int64_t begin = monotonic_us();
        const int64_t past = static_cast<int64_t>(prompt_.size() + timing.tokens.size()) - 1;
        decoder_->evaluate(&timing.tokens.back(), 1, past);
        timing.decoded++;
        slow_down(slowness, cpu, [this] { decoder_->evaluate_again(); }, [this] { events_.tick(); });
        cpu = process_cpu_us();
        open = accept(timing, iteration, begin);
        events_.set_progress(static_cast<int64_t>(timing.tokens.size()), options_.n_predict);
    }
    stage.counters.add("tokens", timing.decoded);
    stage.counters.add("weight_bytes_touched", decoder_->take_weight_bytes_touched());
    timing.decode_us = stage.end(/*already_slowed=*/true);
}

bool Session::accept(Timing & timing, int iteration, int64_t begin_us) {
    write_logits();
    const int32_t id = decoder_->most_likely();
    if (tokenizer_->is_eos(id) && !options_.ignore_eos) {
        return false;
    }
    const int64_t duration = monotonic_us() - begin_us;
    if (timing.tokens.empty()) {
        timing.ttft_us = duration;
    }
    JsonObject fields;
    fields.add("iteration", iteration).add("i", static_cast<uint64_t>(timing.tokens.size())).add("id", id);
    fields.add("text", tokenizer_->bytes(id)).add("dur_us", duration);
    timing.tokens.push_back(id);
    timing.text += tokenizer_->bytes(id);
    events_.emit("token", fields);
    faults_.after_token();
    return true;
}

void Session::say_result(int iteration, const Timing & timing) const {
    JsonObject fields;
    fields.add("iteration", iteration).add("prompt_tokens", static_cast<uint64_t>(prompt_.size()));
    fields.add("output_tokens", static_cast<uint64_t>(timing.tokens.size())).add("decode_tokens", timing.decoded);
    fields.add("ttft_us", timing.ttft_us).add("prefill_us", timing.prefill_us).add("decode_us", timing.decode_us);
    events_.emit("result", fields.add("text", timing.text));
    if (!events_.to_stdout()) {
        std::string shown;
        append_json_string(shown, timing.text);
        const auto rate = [](int64_t tokens, std::optional<int64_t> us) {
            return us && *us > 0 ? std::to_string(static_cast<double>(tokens) * 1e6 / static_cast<double>(*us)) : "-";
        };
        std::printf("text: %s\nprefill: %zu tokens, %s tokens/s\ndecode: %lld tokens, %s tokens/s\n", shown.c_str(),
                    prompt_.size(), rate(static_cast<int64_t>(prompt_.size()), timing.prefill_us).c_str(),
                    static_cast<long long>(timing.decoded), rate(timing.decoded, timing.decode_us).c_str());
        std::fflush(stdout);
    }
}

void Session::write_logits() {
    if (logits_file_ == nullptr) {
        return;
    }
    const std::vector<float> & logits = decoder_->logits();
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), logits_file_) != logits.size()) {
        throw EngineError(ExitCode::io, "cannot write " + options_.dump_logits + ": " + std::strerror(errno));
    }
}

}  // namespace farm
