"""The file of a service, and the commands of the system's own service manager: systemd for one person, or launchd."""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

_MARK = "written by tandem service"
_LABEL = "dev.tandem.router"
_UNIT = """\
# {mark}; tandem service remove deletes it. Keys: .env next to the config, or ~/.config/tandem/keys.env.
[Unit]
Description=Tandem, one endpoint for two tiers of models
After=network.target

[Service]
ExecStart={command}
# A config with faults fails here, and changes nothing.
ExecReload={check}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
EnvironmentFile=-%h/.config/tandem/keys.env
Restart=on-failure
RestartSec=2
# Longer than limits.drain_seconds, so that answers under way end.
TimeoutStopSec=40
KillMode=mixed
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""
_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {mark}; tandem service remove deletes it. Keys: .env next to the config. -->
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>WorkingDirectory</key><string>{folder}</string>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>40</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a service manager, installed or not."""

    path: Path
    is_launchd: bool
    home: Path
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    after_removal: tuple[tuple[str, ...], ...]
    state: tuple[str, ...]
    logs: str
    """How to see what it logs."""

    def is_ours(self) -> bool:
        """Whether the file was written here."""
        try:
            return _MARK in self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def write(self, command: list[str], check: list[str], folder: Path) -> str:
        """The file of the service. `check` says whether the config can be used, before a reload."""
        if self.is_launchd:
            log = self.home / "Library" / "Logs" / "tandem.log"
            arguments = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
            return _PLIST.format(
                mark=_MARK, label=_LABEL, arguments=arguments, folder=escape(str(folder)), log=escape(str(log))
            )
        # systemd expands % and $ in a command; quotes are a shell's.
        words, check_words = (
            " ".join(shlex.quote(word).replace("%", "%%").replace("$", "$$") for word in line) for line in (command, check)
        )
        return _UNIT.format(mark=_MARK, command=words, check=check_words, folder=str(folder).replace("%", "%%"))


def find_manager(platform: str, home: Path) -> Service | None:
    """The service of this person on this system; None where neither manager is known."""
    if platform == "darwin":
        path = home / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
        domain = f"gui/{os.getuid()}"
        return Service(
            path,
            True,
            home,
            start=(("launchctl", "bootstrap", domain, str(path)),),
            stop=(("launchctl", "bootout", f"{domain}/{_LABEL}"),),
            after_removal=(),
            state=("launchctl", "list", _LABEL),
            logs="its log: ~/Library/Logs/tandem.log",
        )
    if platform != "linux" or shutil.which("systemctl") is None:
        return None
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    systemctl = ("systemctl", "--user")
    return Service(
        folder / "tandem.service",
        False,
        home,
        start=((*systemctl, "daemon-reload"), (*systemctl, "enable", "tandem"), (*systemctl, "restart", "tandem")),
        stop=((*systemctl, "disable", "--now", "tandem"),),
        after_removal=((*systemctl, "daemon-reload"),),
        state=(*systemctl, "is-active", "tandem"),
        logs="its log: journalctl --user -u tandem",
    )
