"""A dbus-daemon of the tests' own, with the limits and the manners of a system bus."""

import os
import signal
import subprocess
from pathlib import Path

CONFIGURATION = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <servicedir>{services}</servicedir>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <deny own="org.example.Forbidden"/>
    <allow send_type="signal"/>
    <allow send_type="method_call"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
  <limit name="max_replies_per_connection">128</limit>
  <limit name="max_match_rules_per_connection">512</limit>
  <limit name="max_message_size">33554432</limit>
</busconfig>
"""


class PrivateBus:
    """One dbus-daemon at a time, always at the same address."""

    def __init__(self, directory: Path) -> None:
        self.address = f"unix:path={directory}/bus"
        self.services = directory / "services"
        self.services.mkdir()
        self._configuration = directory / "bus.conf"
        self._configuration.write_text(CONFIGURATION.format(socket=directory / "bus", services=self.services))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        arguments = [f"--config-file={self._configuration}", "--nofork", "--nosyslog", "--print-address=1"]
        self._process = subprocess.Popen(
            ["dbus-daemon", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"unix:path=")

    def kill(self) -> None:
        """Ends it at once; its socket stays behind, as after a crash."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def freeze(self) -> None:
        """Nothing is read and nothing answered, until `thaw`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)
