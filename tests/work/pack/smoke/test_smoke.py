"""What the work's own tests run on a device: quick, with something left behind to collect and to clean."""


def test_the_device_answers(device):
    assert device.shell(["echo", "hello"]).stdout == "hello\n"


def test_the_bundle_is_there(engine):
    assert engine.describe()


def test_something_is_left_behind(device, artifact):
    device.check_shell("echo rubbish > /data/local/tmp/rubbish; setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    artifact("left.txt", "left behind\n", "text/plain")
