"""Every attempt's deploy and load end in one word of the list, or say nothing."""

from __future__ import annotations

import pytest

from farm.domain.causes import Cause
from farm.domain.deployments import WORDS, Deployment, Failure, judge
from farm.domain.outcomes import Outcome
from farm.domain.rates import Rate

LOADING = "the engine ended with an error in stage load.open: "


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        (Failure("load:tokenizer_lookup_failed", "exit code 3"), Deployment.TOKENIZER),
        (Failure("load:mmap_enomem", "x"), Deployment.OUT_OF_MEMORY),
        (Failure("load:truncated_model", "x"), Deployment.MODEL),
        (Failure("load:model_file_not_found", "x"), Deployment.MODEL),
        (Failure("load:npu_job_timeout", "x"), Deployment.LOAD_TIMEOUT),
        (Failure("load:npu_driver_missing", "x"), Deployment.DRIVER),
        (Failure("load:op_not_supported_for_hal", "x"), Deployment.UNSUPPORTED_OPERATOR),
        (Failure("load:permission_denied", "x"), Deployment.PERMISSION),
        (Failure("load:something_new", "x"), Deployment.OTHER),
        (
            Failure(
                "load:model_file_not_found", "exit code 127: error while loading shared libraries: libx.so: cannot open"
            ),
            Deployment.MISSING_LIBRARY,
        ),
        (Failure("dlopen_failed", "the engine ended with exit code 1"), Deployment.MISSING_LIBRARY),
        (Failure("hang", "the engine was silent for 30 s in stage load.map"), Deployment.LOAD_TIMEOUT),
        (
            Failure("low_memory_kill", "the engine was killed by the system in stage load.init"),
            Deployment.OUT_OF_MEMORY,
        ),
        (Failure("native_crash", "the engine crashed in stage load.map: SIGBUS"), Deployment.OTHER),
        (Failure("engine-killed", "the engine was killed by the system in stage load.init"), Deployment.OUT_OF_MEMORY),
        (Failure("engine-failed", LOADING + "model file m.gguf: No such file"), Deployment.MODEL),
        (Failure("engine-failed", LOADING + "cannot allocate the KV cache"), Deployment.OUT_OF_MEMORY),
        (Failure("engine-failed", "the engine ended with exit code 127"), Deployment.MISSING_LIBRARY),
        (Failure("engine-failed", "the engine ended with exit code 126: Exec format error"), Deployment.WRONG_ABI),
    ],
)
def test_a_failure_while_loading_names_its_cause(failure: Failure, wanted: Deployment) -> None:
    assert judge(Outcome.FAILED, None, computed=False, failures=[failure]) is wanted
    assert judge(Outcome.FAILED, None, computed=True, failures=[failure]) is wanted


def test_a_failure_after_loading_is_no_failed_deployment() -> None:
    crash = Failure("native_crash", "the engine crashed in stage decode: SIGSEGV")
    assert judge(Outcome.CRASHED, None, computed=True, failures=[crash]) is Deployment.OK
    assert judge(Outcome.CRASHED, None, computed=False, failures=[crash]) is Deployment.OK  # it left no stages behind
    assert judge(Outcome.PASSED, None, computed=False, failures=[]) is Deployment.OK


@pytest.mark.parametrize(
    ("outcome", "cause", "words", "wanted"),
    [
        (Outcome.DEPLOY_FAILED, Cause.STORAGE_FULL, "", Deployment.STORAGE),
        (Outcome.INFRA_ERROR, Cause.STORAGE_FULL, "", Deployment.STORAGE),
        (Outcome.DEPLOY_FAILED, Cause.MISSING_FILE, "", Deployment.MODEL),
        (Outcome.DEPLOY_FAILED, Cause.TRANSFER_BROKE, "", None),
        (Outcome.DEPLOY_FAILED, Cause.HOST_DISK, "", None),
        (Outcome.DEPLOY_FAILED, None, "mkdir: Permission denied", Deployment.PERMISSION),
        (Outcome.REFUSED, Cause.WRONG_ABI, "", Deployment.WRONG_ABI),
        (Outcome.REFUSED, Cause.NO_MEMORY, "", Deployment.OUT_OF_MEMORY),
        (Outcome.REFUSED, Cause.MISSING_FILE, "the model has no tokenizer", Deployment.TOKENIZER),
        (Outcome.REFUSED, None, "", None),
        (Outcome.CANCELLED, None, "", None),
        (Outcome.DEVICE_LOST, Cause.GONE, "", None),
        (Outcome.FAILED, None, "a test failed before any engine was started", None),
    ],
)
def test_what_ended_before_an_engine_was_started(
    outcome: Outcome, cause: Cause | None, words: str, wanted: Deployment | None
) -> None:
    assert judge(outcome, cause, computed=False, failures=[], words=words) is wanted


def test_every_word_has_its_meaning() -> None:
    assert set(WORDS) == set(Deployment)


def test_an_interval_is_wilsons() -> None:
    rate = Rate(1, 10)
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.1, 0.017876, 0.404150), abs=1e-5)
    assert Rate(0, 20).low == 0
    assert Rate(0, 20).high == pytest.approx(0.161125, abs=1e-5)
    assert Rate(20, 20).high == 1
    assert (Rate(0, 0).value, Rate(0, 0).low, Rate(0, 0).high) == (None, None, None)
    with pytest.raises(ValueError, match="no share"):
        Rate(2, 1)
