"""What engines print when a model does not load → one word for it. The first rule that fits a line names it.

Written from the engines' own messages: llama.cpp (gguf.cpp, llama-model-loader.cpp, the ggml era's llama.cpp),
TensorFlow Lite and LiteRT (model_builder.cc, nnapi_delegate.cc), MediaPipe's LLM inference, MNN, ncnn (net.cpp,
modelbin.cpp), ONNX Runtime, ExecuTorch (runtime/core/error.h), Rockchip's rkllm and rknn, MLC and TVM, Qualcomm's QNN
and Genie.
"""

from __future__ import annotations

import re

#: (error, pattern). Errors that explain most come first.
ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        # Rockchip
        ("platform_query_failed", r"Query platform error|query (?:target )?platform fail"),
        (
            "target_platform_mismatch",
            r"does not match the RKNPU hardware|(?:target|hardware) platform .{0,60}(?:mismatch|not match)"
            r"|model is for .{0,40}but"
            r"|incompatible .{0,30}(?:soc|platform|chip)|not support(?:ed)? (?:by )?(?:the "
            r"|this )?(?:target )?(?:platform|soc)\b|unsupported soc",
        ),
        ("npu_job_timeout", r"job timeout|failed to submit.{0,400}|npu .{0,40}time ?out|dsp .{0,40}time ?out"),
        ("npu_matmul_failed", r"matmul.{0,40}(?:run )?failed"),
        (
            "npu_alloc_failed",
            r"(?:allocate|alloc|malloc|create) .{0,40}(?:npu|rknn|dma|ion|handle|iommu).{0,80}(?:fail|errno"
            r"|error)|failed to (?:allocate|malloc) (?:npu|handle|dma|ion)"
            r"|rknn_create_mem.{0,40}fail|fastrpc.{0,60}(?:memory|map).{0,20}fail",
        ),
        (
            "npu_driver_missing",
            r"(?:open|find) .{0,40}(?:rknpu|/dev/dri|npu|fastrpc|adsprpc).{0,60}(?:fail|not found|No such)"
            r"|failed to open rknpu"
            r"|rknpu driver version.{0,40}(?:too low|not support|mismatch)",
        ),
        # files
        (
            "version_mismatch",
            r"GGUFv1 is no longer supported|this GGUF file is version|format is no longer supported"
            r"|unsupported (?:GGUF |model |file )?version"
            r"|Invalid RKNN model version|Unsupported model IR version"
            r"|ORT format model version.{0,40}not supported|is schema version.{0,60}not equal to"
            r"|runtime version.{0,60}(?:mismatch|not match|too (?:old|low))|model version.{0,60}(?:mismatch"
            r"|not match|too (?:old|low|new)|not support|is not compatible)"
            r"|(?:context binary|blob) .{0,60}(?:version|incompatible)|version mismatch|param is too old"
            r"|Program (?:identifier|version).{0,60}(?:expected|!=)"
            r"|stamped with official released onnx opset|Opset \d+ is under development|bad file version"
            r"|unsupported file version"
            r"|Didn't find op for builtin opcode .{0,120}version|tensor .{0,80}has invalid ggml type"
            r"|invalid ggml type",
        ),
        (
            "bad_magic",
            r"invalid magic|bad magic|magic number mismatch|wrong magic|unknown magic|is this really a GGML"
            r"|unknown \(magic, version\) combination|magic (?:is )?(?:not|wrong|error|mismatch)"
            r"|model identifier '.{0,20}', should be|not a (?:valid )?GGUF"
            r"|missing the? ?magic|Invalid magic",
        ),
        (
            "bundle_corrupt_or_truncated",
            r"Unable to open zip archive|zip archive.{0,60}(?:corrupt|truncat|invalid)|(?:zip|task"
            r"|bundle) file .{0,60}(?:corrupt|truncated)"
            r"|Failed to (?:read|extract).{0,40}(?:task|bundle|zip)",
        ),
        (
            "model_format",
            r"no longer supported to load from directory|(?:unsupported|unknown|unrecognized) (?:model"
            r"|file) (?:format|type)|model format .{0,40}(?:not|unsupported)"
            r"|Invalid model type|is a directory",
        ),
        (
            "mmap_enomem",
            r"(?:mmap|map file|map .{0,30}memory).{0,120}(?:errno ?= ?12|Cannot allocate memory|ENOMEM"
            r"|Out of memory)|mmap failed: Cannot allocate",
        ),
        (
            "tokenizer_lookup_failed",
            r"unordered_map::at: key not found|map::at|out_of_range|token(?:izer)? .{0,60}(?:not found|missing"
            r"|failed to load|cannot be (?:opened|loaded))"
            r"|(?:failed|unable|cannot|can't|couldn't|could not) (?:to )?(?:open|load|find|read|create"
            r"|initialize|parse) .{0,60}(?:tokenizer|vocab|sentencepiece|spiece|merges)"
            r"|error loading model vocabulary|unknown pre-tokenizer type|unknown tokenizer"
            r"|cannot find tokenizer|Cannot find any tokenizer|tokenizer .{0,40}(?:mismatch|error)",
        ),
        (
            "truncated_model",
            r"not within the file bounds|corrupted or incomplete|unexpected(?:ly)? (?:reached )?end of file"
            r"|\bEOF\b.{0,60}(?:model|tensor|reading)|read error: |file is truncated"
            r"|truncated|incomplete (?:model|file|download)|data (?:is )?out of bounds|(?:ModelBin"
            r"|layer) (?:read|load_model).{0,80}fail|file size .{0,60}(?:smaller|less|mismatch|too small)"
            r"|fewer bytes|short read|failed to read (?:magic|key|tensor|tensor info|header|the number)"
            r"|weights? .{0,40}(?:size mismatch|incomplete)|wrong number of tensors|Protobuf parsing failed"
            r"|size (?:mismatch|is less than expected)|tensor data .{0,40}exceeds",
        ),
        (
            "model_file_not_found",
            r"(?:No such file|file (?:does not|doesn't|not) exist|file not found|NO_SUCHFILE|ENOENT"
            r"|does not exist)|(?:failed|unable|cannot|can't|couldn't|could not) (?:to )?(?:open|find|read"
            r"|access|stat) "
            r"(?:the )?(?:model|gguf|file|param|weights?|bin\b|config|mnn|pte|.{0,200}\.(?:gguf|bin|tflite"
            r"|task|litertlm|mnn|param|onnx|pte|rkllm|rknn|json|txt|so))"
            r"|fopen .{0,200} failed|open\(\) failed|model (?:file|path) .{0,100}(?:not found|missing|invalid)"
            r"|Could not open '|NOT_FOUND: (?!TFLITE)|Can't open file:(?!\.(?:temp)?cache)",
        ),
        (
            "permission_denied",
            r"(?:open|read|load|access|stat|map|execute).{0,160}(?:Permission denied|EACCES|errno ?= ?13)"
            r"|Permission denied",
        ),
        (
            "invalid_model_file",
            r"not a valid Flatbuffer|Invalidate buffer to create MNN|Invalid(?:ate)? (?:buffer|model file|fb"
            r"|program|flatbuffer)|INVALID_PROTOBUF|InvalidProgram|model (?:is|file is) (?:invalid|corrupt"
            r"|broken)"
            r"|Failed to (?:build|create) (?:a )?(?:flatbuffer|FlatBufferModel)|Deserialize .{0,40}fail"
            r"|failed to parse (?:model|json|config|header)|Model data is (?:broken|invalid)",
        ),
        # what a model asks for
        (
            "op_not_supported_for_hal",
            r"not support\w*.{0,60}\bHAL\b|\bHAL\b.{0,60}(?:not |un)support|unsupport\w*.{0,60}\bHAL\b|"
            r"(?:op|operation|node|layer)\b.{0,160}not supported .{0,40}\bHAL"
            r"|only supported since .{0,60}(?:HAL|validating)|HAL version.{0,60}(?:not support|lower)"
            r"|not supported (?:in|by|for|on) (?:the )?(?:NNAPI|HAL)"
            r"|halVersion|is not supported .{0,60}feature level",
        ),
        (
            "op_not_supported",
            r"layer .{0,80}not exists? or registered|unresolved custom op|unsupported (?:op(?:erator)?|layer"
            r"|node)\b|(?:op(?:erator)?|operation|node|layer) .{0,120}(?:is )?not (?:supported|implemented"
            r"|registered|found)|Missing operator"
            r"|OperatorMissing|Could not find an implementation for|No Op registered for|Don't support type \["
            r"|not a registered function/op|Cannot find (?:global )?function"
            r"|Regular TensorFlow ops are not supported|NOT_IMPLEMENTED",
        ),
        (
            "backend_not_available",
            r"Failed to load skel|Transport layer setup failed|backend is not supported|DspTransport|"
            r"Backend .{0,60}is not registered|failed to (?:load|create|initialize) .{0,60}(?:delegate|backend"
            r"|device|HTP|QnnHtp|execution provider)|Unable to load (?:backend|lib)|no usable (?:GPU|device"
            r"|backend)|DelegateInvalid|could not create (?:device|context)"
            r"|Failed to apply .{0,40}delegate|clGetPlatformIDs.{0,40}error|no OpenCL platform",
        ),
        (
            "unsupported_architecture",
            r"unknown (?:model )?architecture|unsupported (?:model )?architecture"
            r"|model_type .{0,60}not (?:supported|recognized)|unknown model type",
        ),
        (
            "missing_tensor",
            r"missing tensor|tensor .{0,120}(?:not found|has wrong shape)|Cannot find parameter|model lacks"
            r"|key not found in model|NOT_FOUND: TFLITE|missing .{0,30}(?:section|metadata)",
        ),
        (
            "allocation_failure",
            r"failed to allocate|unable to allocate|allocat\w+ .{0,80}failed|insufficient memory"
            r"|not enough (?:memory|space)|out of memory|bad_alloc|MemoryAllocationFailed|OutOfMemoryError"
            r"|RESOURCE_EXHAUSTED|cannot allocate memory",
        ),
        (
            "nnapi_error",
            r"NN API returned error|ANEURALNETWORKS_(?!NO_ERROR)\w+",
        ),
        (
            "context_failed",
            r"failed to (?:create|init\w*) (?:the )?(?:llama_)?context|failed to create (?:the )?dialog"
            r"|Could not create context from binary",
        ),
        (
            "missing_library",
            r"dlopen failed|cannot locate symbol|CANNOT LINK EXECUTABLE|UnsatisfiedLinkError"
            r"|cannot open shared object",
        ),
        ("invalid_argument", r"Invalid argument|INVALID_ARGUMENT|InvalidArgument"),
        (
            "load_failed",
            r"(?:failed|unable) to (?:load|create|init\w*|open) .{0,60}(?:model|engine|session|module|llm)"
            r"|error loading model|(?:load|init)\w* (?:model )?(?:file )?(?:fail|error)\w*|rk(?:nn"
            r"|llm)_init\W.{0,40}fail|Model load failure"
            r"|Load model error|model load(?:ing)? failed|Failed to initialize engine",
        ),
    )
)

#: Errors that only say "it did not work": a later, more precise one wins over them.
VAGUE = ("invalid_argument", "load_failed", "context_failed", "missing_library")

#: Names of ExecuTorch's error numbers.
EXECUTORCH = {
    0x01: "internal",
    0x02: "invalid_state",
    0x03: "end_of_method",
    0x04: "already_loaded",
    0x10: "not_supported",
    0x11: "op_not_supported",
    0x12: "invalid_argument",
    0x13: "invalid_type",
    0x14: "op_not_supported",
    0x15: "kernel_registration",
    0x16: "kernel_registration",
    0x20: "model_file_not_found",
    0x21: "allocation_failure",
    0x22: "access_failed",
    0x23: "invalid_model_file",
    0x24: "invalid_external_data",
    0x25: "out_of_resources",
    0x30: "backend_not_available",
    0x31: "allocation_failure",
    0x32: "backend_not_available",
}

#: First-run noise, and notices that a load survives.
BENIGN = re.compile(
    r"Can't open file: ?\.?\w*cache|Load Cache file error|use 0 instead|Don't support \d+\s*$"
    r"|Can't Find type=\d+ backend|libOpenCL.{0,60}not found.{0,40}fallback"
    r"|failed to mlock|perf_event|falling back|fall back|will use CPU|warning: .{0,80}unsupported"
    r"|avc:\s+denied|Cannot open file: /dev/"
    r"|control-looking token|special tokens cache|failed to lock",
    re.I,
)

ENGINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("rkllm", r"\brkllm\b|rkllm[-_ ]|RKLLM|librkllm"),
        ("rknn", r"\bRKNN\b|\bRKNPU\b|rknn_|librknn|rknn-toolkit"),
        ("mediapipe-llm", r"(?i:mediapipe)|odml/infra/genai|LlmTaskRunner|LlmInference|MediaPipeTasksStatus"),
        ("litert-lm", r"odml/litert_lm|litert[-_]lm|LiteRtLm|litertlm|LiteRT-LM"),
        ("executorch", r"(?i:executorch)|\bETensor|\.pte\b|ExecuTorch"),
        ("MNN", r"\bMNN|libMNN|mnn[-_]?llm|mnnllm|MNNJNI|\.mnn\b|Create MNN|mnn_llm"),
        (
            "ncnn",
            r"\.param\b|param is too old|\bncnn\b|libncnn|ModelBin read|param magic"
            r"|layer \w+ not exists or registered",
        ),
        (
            "onnxruntime",
            r"(?i:onnx ?runtime)|ai\.onnxruntime|OrtException|onnx opset|\.onnx\b|ORT format|sherpa-onnx"
            r"|model IR version",
        ),
        ("mlc-llm", r"mlc[-_]?llm|mlc_llm|mlcchat|mlc\.mlcllm|\bTVM_?RUNTIME|tvm::runtime|TVMError|3rdparty/tvm"),
        ("genie", r"\bGenie|libGenie|genie-t2t"),
        ("qnn", r"\bQnn|QNN|libQnn|QnnHtp|QnnDsp"),
        (
            "llama.cpp",
            r"\bllama_|gguf_init|llama_model_load|llama\.cpp|\bggml_|GGML_|llm_load|main: build = |libllama"
            r"|\.gguf\b|GGML|llama-cli|llama-bench|load_model_from_file|llama_context",
        ),
        (
            "tflite",
            r"\btflite\b|TfLite|TensorFlow ?Lite|tensorflow/lite|\.tflite\b|libtensorflowlite|Flatbuffer|NNAPI"
            r"|NN API|ANEURALNETWORKS|builtin opcode|LiteRT|TFL3|schema version|unresolved custom op|XNNPACK"
            r"|HAL version|Operations: Operation",
        ),
        ("whisper.cpp", r"whisper_(?:init|model|full)|ggml-whisper"),
    )
)
SUCCESS = re.compile(
    r"(?:load|init\w*|open)\w*.{0,40}(?:\bdone\b|success|succeeded|finished|complete)"
    r"|successfully (?:loaded|created|initialized)|rkllm init success|model loaded|Loaded model"
    r"|llama_model_loader: loaded meta data|llm_load_print_meta|print_info: |llama_kv_cache"
    r"|Can't Find type=\d+ backend, use \d+ instead|load_tensors: |Engine (?:created|initialized)"
    r"|The input model file size|Initialized session|llama_new_context|Session created",
    re.I,
)

#: Of these, in lower case, a line holds one if any pattern here fits it. Fixed words are found many times faster.
ENGINE_WORDS = (
    "llama",
    "gguf",
    "ggml",
    "rkllm",
    "rknn",
    "rknpu",
    "mnn",
    "ncnn",
    "onnx",
    "ort",
    "lite",
    "mediapipe",
    "odml",
    "executorch",
    "etensor",
    ".pte",
    "tvm",
    "mlc",
    "genie",
    "qnn",
    "whisper",
    "llm",
    "flatbuffer",
    "nnapi",
    "nn api",
    "aneural",
    "opcode",
    "custom op",
    "hal version",
    "operation",
    "load",
    "param",
    "modelbin",
    "registered",
    "main: build",
    "schema version",
    "model ir",
    "tensorflow",
    "tfl3",
    "xnnpack",
)
WORDS = (
    "fail",
    "err",
    "invalid",
    "unable",
    "not",
    "n't",
    "no ",
    "cannot",
    "unsupport",
    "mismatch",
    "timeout",
    "time out",
    "director",
    "map::at",
    "missing",
    "unknown",
    "out of",
    "magic",
    "corrupt",
    "truncat",
    "denied",
    "incomplete",
    "enomem",
    "too ",
    "expect",
    "eof",
    "only ",
    "lower",
    "fewer",
    "short",
    "unexpected",
    "unresolved",
    "registered",
    "exist",
    "size",
    "version",
    "must",
    "signal",
    "fault",
    "abort",
    "kill",
    "load",
    "init",
    "success",
    "created",
    "session",
    "print_info",
    "kv_cache",
    "backend",
    "build",
    "illegal",
    "instead",
    "lost",
    "hal",
    "opset",
    "throw",
    "path",
    "status",
    "platform",
    "exceed",
    "token",
    "model",
    "llama_",
    "exhaust",
    "file",
    "wrong",
)
