# ruff: noqa: E501 - lines as the tools print them
"""Formats of other versions and siblings of the tools, as their printing code writes them. The figures are made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farm.evidence.engines import parse

Figures = set[tuple[str, float, str]]

#: (tool, what it printed, figures that must be there, status)
CASES: list[tuple[str, str, str, Figures, str]] = [
    (
        "llama-bench as CSV",
        "llama-bench",
        "build_commit,build_number,n_prompt,n_gen,n_depth,avg_ns,stddev_ns,avg_ts,stddev_ts\n"
        '"8cf427ff","5163","512","0","0","72135640","1453752","7100.002165","140.341520"\n'
        '"8cf427ff","5163","0","128","4096","1076767880","9449585","118.881588","1.041811"\n',
        {("prefill_rate", 7100.002165, "tok/s"), ("decode_rate", 118.881588, "tok/s"), ("avg_ns", 72135640.0, "ns")},
        "ok",
    ),
    (
        "llama-bench as SQL",
        "llama-bench",
        "CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT\n);\n\n"
        "INSERT INTO llama_bench (build_commit, n_prompt, n_gen, avg_ns, avg_ts, stddev_ts) "
        "VALUES ('8cf427ff', '0', '128', '1076767880', '118.881588', '1.041811');\n",
        {("decode_rate", 118.881588, "tok/s"), ("stddev_ts", 1.041811, "tok/s")},
        "ok",
    ),
    (
        "llama-bench, a JSON array that messages interrupt and the end cuts",
        "llama-bench",
        '[\n  {\n    "build_commit": "8cf427ff",\nggml_opencl: selecting device\n    "n_prompt": 64,\n    "n_gen": 0,\n'
        '    "avg_ts": 70.5,\n    "samples_ts": [ 70, 71 ]\n  },\n  {\n    "build_commit": "8cf427ff",\n    "avg_ts": 11.',
        {("prefill_rate", 70.0, "tok/s"), ("prefill_rate", 71.0, "tok/s"), ("avg_ts", 70.5, "tok/s")},
        "incomplete",
    ),
    (
        "llama-bench, a row with emphasis, quoted in a thread",
        "llama-bench",
        "> | model | size | params | backend | ngl | test | t/s |\n> | --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "> | llama 1B Q4_0 | 0.60 GiB | 1.24 B | CPU | 0 | pp512+tg128 | **47,84 ± nan** |\n",
        {("rate", 47.84, "tok/s"), ("size", 0.6, "GiB")},
        "ok",
    ),
    (
        "llama-batched-bench as JSON lines",
        "llama-batched-bench",
        '{"n_kv_max": 4096, "n_batch": 2048, "pp": 128, "tg": 32, "pl": 4, "n_kv": 640, "t_pp": 0.512, '
        '"speed_pp": 1000.5, "t_tg": 1.25, "speed_tg": 102.4, "t": 1.762, "speed": 363.2}\n',
        {("prefill_rate", 1000.5, "tok/s"), ("decode_rate", 102.4, "tok/s"), ("prefill_time", 0.512, "s")},
        "ok",
    ),
    (
        "llama-server's timings under a logger's prefix",
        "llama-server",
        "slot print_timing: id  0 | task 7 | \n"
        "prompt eval time =     123.45 ms /    10 tokens (   12.35 ms per token,    81.00 tokens per second)\n"
        "       eval time =    2000.00 ms /    50 tokens (   40.00 ms per token,    25.00 tokens per second)\n"
        "      total time =    2123.45 ms /    60 tokens\n",
        {("prefill_rate", 81.0, "tok/s"), ("decode_rate", 25.0, "tok/s"), ("decode_tokens", 50.0, "tokens")},
        "ok",
    ),
    (
        "llama-server's answer",
        "llama-server",
        '{"content":"hi","timings":{"prompt_n":12,"prompt_ms":55.5,"prompt_per_second":216.2,"predicted_n":9,'
        '"predicted_ms":300.25,"predicted_per_second":29.97}}\n',
        {("prefill_rate", 216.2, "tok/s"), ("decode_time", 300.25, "ms")},
        "ok",
    ),
    (
        "llama.cpp with one token generated and its memory",
        "llama-perf",
        "llama_perf_context_print:        load time =     617.94 ms\n"
        "llama_perf_context_print: prompt eval time =      80.76 ms /    11 tokens (    7.34 ms per token,   136.21 tokens "
        "per second)\nllama_perf_context_print:        eval time =       0.00 ms /     1 runs   (    0.00 ms per token,"
        "      inf tokens per second)\nllama_perf_context_print:       total time =      90.92 ms /    12 tokens\n"
        "llama_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute |\n"
        "llama_memory_breakdown_print: |   - HTP0 (Hexagon)     |  2048 = 1900 + ( 148 =   100 +      40 +       8) + 0 |\n"
        "llama_memory_breakdown_print: |   - Host               |                  439 =   225 +     136 +      77      |\n"
        "load_tensors:          CPU model buffer size =   225.49 MiB\n",
        {("prefill_rate", 136.21, "tok/s"), ("memory_model", 225.0, "MiB"), ("memory_total", 2048.0, "MiB"),
         ("buffer_size", 225.49, "MiB")},
        "ok",
    ),
    (
        "llava of 2024",
        "llama-mtmd",
        "encode_image_with_clip: image embedding created: 576 tokens\n"
        "encode_image_with_clip: image encoded in   886.07 ms by CLIP (    1.54 ms per image patch)\n",
        {("image_encode_time", 886.07, "ms"), ("image_tokens", 576.0, "tokens"), ("image_time_per_patch", 1.54, "ms")},
        "ok",
    ),
    (
        "benchmark_model with percentiles under logcat's prefix",
        "benchmark_model",
        "07-08 15:33:55.993 I/tflite  ( 5395): Initialized session in 458.883ms.\r\n"
        "07-08 15:33:56.993 I/tflite  ( 5395): Running benchmark for at least 1 iterations and at least 0.5 seconds\r\n"
        "07-08 15:33:58.993 I/tflite  ( 5395): count=1 curr=2732148 p5=2732148 median=2732148 p95=2732148\r\n"
        "07-08 15:33:58.993 I/tflite  ( 5395): Running benchmark for at least 10 iterations and at least 1 seconds\r\n"
        "07-08 15:34:26.201 I/tflite  ( 5395): count=10 first=2653894 curr=2709263 min=2640862 max=3025403 "
        "avg=2.71985e+06 std=105101 p5=2640862 median=2709264 p95=3025403\r\n"
        "07-08 15:34:26.202 I/tflite  ( 5395): Overall peak memory footprint (MB) via periodic monitoring: 93.2383\r\n",
        {("warmup_time", 2732148.0, "us"), ("inference_time", 2719850.0, "us"), ("inference_time", 2709264.0, "us"),
         ("memory_peak", 93.2383, "MB"), ("count", 10.0, "1")},
        "ok",
    ),
    (
        "benchmark_model's op profile",
        "tflite",
        "Inference timings in us: Init: 17187, First inference: 3512391, Warmup (avg): 3.51239e+06, Inference (avg): 2950\n"
        "============================== Run Order ==============================\n"
        "\t             [node type]\t          [start]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]\t  [mem KB]\t[times called]"
        "\t[Name]\n\t         CONV_2D\t            0.000\t    1.356\t    1.250\t 99.000%\t100.000%\t     0.000\t        1"
        "\t[conv1]:0\n",
        {("op_time", 1.25, "ms"), ("op_share", 99.0, "%"), ("inference_time", 2950.0, "us")},
        "ok",
    ),
    (
        "LiteRT-LM with turns",
        "litert-lm",
        "BenchmarkInfo:\n  Init Phases (1):\n    - Init Total: 580.10 ms\n  Time to first token: 0.92 s\n"
        "  Prefill Turns (Total 1 turns):\n    Prefill Turn 1: Processed 16 tokens in 819.9514ms duration.\n"
        "      Prefill Speed: 19.51 tokens/sec.\n  Decode Turns (Total 1 turns):\n"
        "    Decode Turn 1: Processed 88 tokens in 1m8.7038005s duration.\n      Decode Speed: 1.28 tokens/sec.\n",
        {("init_time", 580.10, "ms"), ("ttft", 0.92, "s"), ("prefill_time", 0.8199514, "s"), ("decode_tokens", 88.0, "tokens"),
         ("prefill_rate", 19.51, "tok/s"), ("decode_rate", 1.28, "tok/s"), ("decode_time", 68.7038005, "s")},
        "ok",
    ),
    (
        "ExecuTorch's observer alone",
        "executorch",
        'PyTorchObserver {"prompt_tokens":31,"generated_tokens":96,"model_load_start_ms":1000,"model_load_end_ms":1887,'
        '"inference_start_ms":1887,"inference_end_ms":3721,"prompt_eval_end_ms":1943,"first_token_ms":1943,'
        '"aggregate_sampling_time_ms":71,"SCALING_FACTOR_UNITS_PER_SECOND":1000}\n',
        {("load_time", 887.0, "ms"), ("ttft", 56.0, "ms"), ("prefill_rate", 31000 / 56, "tok/s"), ("sampling_time", 71.0, "ms")},
        "ok",
    ),
    (
        "ExecuTorch's executor_runner and benchmark app",
        "executorch",
        "I 00:00:00.123456 executorch:executor_runner.cpp:240] Model executed successfully 1 time(s) in 12.500000 ms.\n"
        '[\n {"benchmarkModel": {"name": "mv3", "backend": "xnnpack"}, "metric": "avg_inference_latency(ms)",'
        ' "actualValue": 9.75, "targetValue": 0},\n {"metric": "model_load_time(ms)", "actualValue": 30.0}\n]\n',
        {("avg_inference_latency", 9.75, "ms"), ("model_load_time", 30.0, "ms"), ("execution_time", 12.5, "ms")},
        "ok",
    ),
    (
        "MNN's llm_bench",
        "mnn",
        "| model | modelSize | backend | threads | precision | test | t/s |\n| --- | ---: | --- | ---: | --- | ---: | ---: |\n"
        "| qwen | 260.25 MiB | CPU | 4 | Low | pp512 | 1052.25 ± 8.25 |\n"
        "| qwen | 260.25 MiB | CPU | 4 | Low | tg128 | 64.62 ± 0.11 |\n\n"
        "| model | threads | llm_demo | speed(tok/s) |\n| --- | --- | --- | --- |\n"
        "| qwen | 4 | prompt=32<br>decode=16 | 98.70 ± 1.23<br>27.62 ± 0.85 |\n",
        {("prefill_rate", 1052.25, "tok/s"), ("decode_rate", 64.62, "tok/s"), ("prefill_rate", 98.7, "tok/s"),
         ("decode_rate", 27.62, "tok/s"), ("stddev", 0.85, "tok/s")},
        "ok",
    ),
    (
        "ONNX Runtime GenAI",
        "onnxruntime",
        "Batch size: 1, prompt tokens: 128, tokens to generate: 64\nPrompt processing (time to first token):\n"
        "        avg (us):       1.00924e+07\n        avg (tokens/s): 307.256\n        p50 (us):       413180\n"
        "        stddev (us):    7532.87\n        n:              5 * 128 token(s)\nToken generation:\n"
        "        avg (us):       90500.9\n        avg (tokens/s): 11.0496\nE2E generation (entire generation loop):\n"
        "        avg (ms):       11910.3\nPeak working set size (bytes): 1304625152\n",
        {("ttft", 10092400.0, "us"), ("prefill_rate", 307.256, "tok/s"), ("decode_rate", 11.0496, "tok/s"),
         ("total_time", 11910.3, "ms"), ("peak_memory", 1304625152.0, "B"), ("prompt_tokens", 128.0, "tokens")},
        "ok",
    ),
    (
        "RKLLM 1.1 with an Init row",
        "rkllm",
        "I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second      \n"
        "I rkllm:  Init          2567.31          /         /                        /                      \n"
        "I rkllm:  Prefill       123.45           10        12.35                    81.00                  \n"
        "I rkllm:  Generate      4000.00          100       40.00                    25.00                  \n"
        "I rkllm:  Memory Usage (GB)\nI rkllm:  1.35\n",
        {("init_time", 2567.31, "ms"), ("prefill_rate", 81.0, "tok/s"), ("decode_rate", 25.0, "tok/s"),
         ("peak_memory", 1.35, "GB")},
        "ok",
    ),
    (
        "RKNN's eval_perf",
        "rknn",
        "Total Operator Elapsed Per Frame Time(us): 128441\nTotal Memory Read/Write Per Frame Size(KB): 289739\n",
        {("operator_time", 128441.0, "us"), ("memory_traffic", 289739.0, "kB")},
        "ok",
    ),
    (
        "MLC's chat statistics of 2024",
        "mlc-llm",
        "----------- prefill -----------\nthroughput: 175.453 tok/s\ntotal tokens: 7 tok\ntotal time: 0.040 s\n"
        "------------ decode ------------\nthroughput: 155.007 tok/s\ntotal tokens: 256 tok\ntotal time: 1.652 s\n",
        {("rate", 175.453, "tok/s"), ("rate", 155.007, "tok/s"), ("time", 1.652, "s"), ("tokens", 256.0, "tokens")},
        "ok",
    ),
    (
        "MLC's usage object",
        "mlc-llm",
        '{"prompt_tokens": 20, "completion_tokens": 60, "extra": {"prefill_tokens_per_s": 120.5, '
        '"decode_tokens_per_s": 33.25, "ttft_s": 0.5, "end_to_end_latency_s": 2.25}}\n',
        {("prefill_rate", 120.5, "tok/s"), ("decode_rate", 33.25, "tok/s"), ("ttft", 0.5, "s")},
        "ok",
    ),
    (
        "Genie's key figures",
        "genie",
        "[KPIS]:\nInit Time: 1834567 us\nPrompt Processing Time: 120000 us, Prompt Processing Rate : 166.67 toks/sec\n"
        "Token Generation Time: 4000000 us, Token Generation Rate: 12.50 toks/sec\n",
        {("init_time", 1834567.0, "us"), ("prefill_rate", 166.67, "tok/s"), ("decode_rate", 12.5, "tok/s")},
        "ok",
    ),
    (
        "Genie's profile",
        "genie",
        json.dumps({"components": [{"events": [
            {"type": "GenieDialog_create", "duration": 900, "init-time": {"value": 800, "unit": "us"}},
            {"type": "GenieDialog_query", "num-prompt-tokens": {"value": 20, "unit": ""},
             "prompt-processing-rate": {"value": 166.5, "unit": "toks/sec"},
             "time-to-first-token": {"value": 120000, "unit": "us"},
             "token-generation-rate": {"value": 0.0, "unit": "toks/sec"}}]}]}, indent=2) + "\n",
        {("prefill_rate", 166.5, "tok/s"), ("ttft", 120000.0, "us"), ("num_prompt_tokens", 20.0, "tokens")},
        "ok",
    ),
    (
        "AI Hub Models' summary of 2025",
        "qualcomm",
        "Performance results on-device for Ffnet_40S.\nDevice                          : Samsung Galaxy S23 (13)\n"
        "Estimated inference time (ms)   : 23.3                   \nEstimated peak memory usage (MB): [3, 5]    \n"
        "Total # Ops                     : 92\nCompute Unit(s)                 : NPU (90 ops) CPU (2 ops)\n",
        {("inference_time", 23.3, "ms"), ("peak_memory_min", 3.0, "MB"), ("peak_memory_max", 5.0, "MB"),
         ("npu_layers", 90.0, "1"), ("cpu_layers", 2.0, "1"), ("total_layers", 92.0, "1")},
        "ok",
    ),
    (
        "AI Hub's <0.1 ms",
        "qualcomm",
        "Performance results on-device for Tiny.\nEstimated inference time (ms)   : <0.1\n",
        set(),
        "no_metrics",
    ),
    (
        "qnn-profile-viewer",
        "qnn",
        "Init Stats:\n-----------\n    NetRun:  256372 us\nExecute Stats (Average):\n------------------\n"
        "Total Inference Time:\n---------------------\nGraph 0 (model):\n    NetRun:  2952 us\n"
        "    Backend (Number of HVX threads used): 4 count\n    Backend (Accelerator (execute) time): 2492 us\n"
        "Execute Stats (Overall):\n------------------\n    NetRun IPS:  214.8888 inf/sec\n",
        {("inference_time", 2952.0, "us"), ("inference_time", 2492.0, "us"), ("inference_rate", 214.8888, "1/s"),
         ("netrun", 256372.0, "us")},
        "ok",
    ),
    (
        "loadgen's summary",
        "mlperf",
        "================================================\nMLPerf Results Summary\nSUT name : PySUT\nScenario : SingleStream\n"
        "Mode     : PerformanceOnly\n90th percentile latency (ns) : 609750011\nResult is : VALID\n"
        "  Min duration satisfied : Yes\n * Early stopping 90th percentile estimate: 7171535\nAdditional Stats\n"
        "QPS w/ loadgen overhead         : 141.400\nMin latency (ns)                : 6930533\n",
        {("90th_percentile_latency", 609750011.0, "ns"), ("qps_w_loadgen_overhead", 141.4, "1/s"),
         ("min_latency", 6930533.0, "ns")},
        "ok",
    ),
    (
        "the kernel's low-memory killer",
        "logcat",
        "Killing 'com.example.app' (4321), adj 900,\n<6>lowmemorykiller: Killing 'com.example.app' (4321), adj 900, "
        "to free 12345kB on behalf of 'kswapd0' (62) because\n",
        {("rss_freed", 12345.0, "kB"), ("oom_score_adj", 900.0, "1")},
        "ok",
    ),
    (
        "onnxruntime_perf_test of 2019",
        "onnxruntime_perf_test",
        "Total time cost: 58.8053\nTotal iterations: 1000\nAverage time cost: 58.8053 ms\nTotal run time: 58.8102 s\n"
        "Min Latency is 0.0559777 sec\nP999 Latency is 0.0623472 sec\n",
        {("inference_time", 58.8053, "ms"), ("total_inference_time", 58.8053, "s"), ("total_run_time", 58.8102, "s"),
         ("requests", 1000.0, "1"), ("inference_time", 0.0559777, "s"), ("inference_time", 0.0623472, "s")},
        "ok",
    ),
    (
        "mnn-llm of 2024 and llm_demo of 2026",
        "mnn",
        " total tokens num  = 145\nprompt tokens num  = 25\noutput tokens num  = 120\n  total time = 6.29 s\n"
        "  total speed = 23.05 tok/s\n   chat speed = 19.08 tok/s\n pixels_mp = 0.39 MP\n  audio process time = 0.25 s\n"
        "prefill time = 0.31 s\n vision speed = 1.250 MP/s\n audio RTF = 0.125 \n",
        {("total_tokens", 145.0, "tokens"), ("output_tokens", 120.0, "tokens"), ("total_time", 6.29, "s"),
         ("chat_rate", 19.08, "tok/s"), ("pixels", 0.39, "MP"), ("audio_process_time", 0.25, "s"),
         ("vision_rate", 1.25, "MP/s"), ("audio_real_time_factor", 0.125, "1")},
        "ok",
    ),
    (
        "LiteRT-LM's command line, and a table made of it",
        "litert-lm",
        "Benchmarking model: m.litertlm (/data/m.litertlm)\nBackend                    : cpu\n"
        "Number of tokens in prefill: 256\nNumber of tokens in decode : 128\nMax number of tokens       : 2048\n"
        "----- Results -----\nPrefill speed:        220.50 tokens/s\nDecode speed:         0.69 tokens/s\n"
        "Init time:            7.6006 s\nTime to first token:  2.0292 s\n\n"
        "Max number of tokens | Prefill speed, tokens/s | Decode speed, tokens/s | Init time, s | Time to first token, s\n"
        "-- | -- | -- | -- | --\n4096 | 23.73 | 4.63 | 20.215 | 11.0024\n",
        {("prefill_tokens", 256.0, "tokens"), ("decode_tokens", 128.0, "tokens"), ("prefill_rate", 220.5, "tok/s"),
         ("init_time", 7.6006, "s"), ("ttft", 11.0024, "s"), ("decode_rate", 4.63, "tok/s"), ("init_time", 20.215, "s")},
        "ok",
    ),
    (
        "MLC's steps of 2023",
        "mlc-llm",
        "[18:04:47] /src/cpp/llm_chat.cc:689: [i: 51] decoding-time=8.44127ms tok/s: 119.053.\n",
        {("decode_rate", 119.053, "tok/s"), ("token_time", 8.44127, "ms")},
        "ok",
    ),
    (
        "RKLLM with a model of another version",
        "rkllm",
        "rkllm init start\nE RKNN: [08:48:14.826] invalid rknn llm model magic\nE RKNN: [08:48:14.826] load model file error!\n"
        "rknn_init fail! ret=-1\nrkllm init success\n",
        set(),
        "failed",
    ),
    ("a linker that refuses", "ncnn", 'CANNOT LINK EXECUTABLE "./benchncnn": library "libomp.so" not found\n', set(), "failed"),
    ("a shell that waited", "mnn", "MNN benchmark\ntimeout: sending signal TERM to command\n", set(), "timeout"),
    ("nothing at all", "tflite", "", set(), "no_metrics"),
]  # fmt: skip


def figures(tool: str, text: str) -> tuple[Figures, dict[str, Any]]:
    report = parse(tool, text.splitlines(keepends=True)).to_json()
    return {(m["name"], m["value"], m["unit"]) for m in report["measurements"]}, report


@pytest.mark.parametrize(("tool", "text", "wanted", "status"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_format_is_read(tool: str, text: str, wanted: Figures, status: str) -> None:
    found, report = figures(tool, text)
    close = {(name, round(value, 9), unit) for name, value, unit in found}
    assert {(name, round(value, 9), unit) for name, value, unit in wanted} <= close
    assert report["status"] == status, report["notes"]
