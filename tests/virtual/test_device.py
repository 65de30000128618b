"""A virtual device under the stock adb."""

from __future__ import annotations

from tests.devices import AdbServer, StartVirtualDevice


def test_a_device_is_listed_with_product_model_and_device(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    line = next(
        line for line in adb_server.run("devices", "-l").stdout.decode().splitlines() if line.startswith(device.address)
    )
    assert "product:rk3568_s model:rk3568 device:rk3568_s" in line
    assert adb_server.shell(device, "getprop ro.serialno") == device.serial
