"""The `farm` command: a table of subcommands, each imported when it is called and not before.

Exit codes are those of `farm.domain.outcomes.ExitCode`; a command that was typed wrongly is *refused* (3), since 2
is the farm's own trouble.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from farm.cli.errors import Answer, CliError, show_error
from farm.domain.outcomes import ExitCode
from farm.settings import SettingsError

#: Subcommand → (module, or module:function; what it is for). The listing must not import them.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Three virtual devices, an engine, suites and a dashboard."),
    "up": ("up", "Start the farm on this machine."),
    "down": ("down", "Stop the farm on this machine."),
    "server": ("server", "A server of a farm of several processes (PostgreSQL)."),
    "agent": ("agent", "The work of one host of such a farm."),
    "backup": ("backup", "The whole farm into one file, while it works."),
    "restore": ("restore", "An empty farm out of such a file."),
    "login": ("login", "Log in: a link for a browser, or a token for this command line."),
    "whoami": ("whoami", "Which farm, as whom, with what rights."),
    "devices": ("devices", "Devices, and whether they can be used now."),
    "device": ("device", "One device: quarantine, maintenance, release, check, note."),
    "hosts": ("hosts", "Hosts, and whether they can be given work now."),
    "acquire": ("acquire", "Lease a device for a while."),
    "lease": ("lease", "Leases: list, extend, release, preempt."),
    "run": ("run", "Queue a run: a bundle, suites, devices."),
    "runs": ("runs", "Runs, newest first."),
    "show": ("show", "One run: devices, tests, measurements."),
    "logs": ("logs", "The log of a run's attempts."),
    "cancel": ("cancel", "Cancel a run."),
    "bundle": ("bundle", "Engine bundles: build, list, check."),
    "suite": ("suite", "Suite packs: pack, list."),
    "verdict": ("verdict", "Judge runs of two builds: regressed, improved, unchanged?"),
    "alerts": ("alerts", "What a person should see to now."),
    "why": ("why", "Why a job waits, and when it will start."),
    "holds": ("holds", "What is paused or drained."),
    "pause": ("holds:pause", "No new work on a device, host, pool or the farm."),
    "drain": ("holds:drain", "The same, and wait until nothing runs there any more."),
    "resume": ("holds:resume", "Give it work again."),
    "simulate": ("simulate", "Play a lab through before it is built: who would wait how long?"),
    "tokens": ("tokens", "Tokens for programs: list, create, revoke."),
    "users": ("users", "Users (admin): list, add, set."),
    "teams": ("teams", "Teams: weights and quotas."),
    "clusters": ("clusters", "Incidents that are one fault: list, show, name, mute."),
    "deployments": ("deployments", "How often bundles do not load on devices, and why."),
    "audit": ("audit", "Who did what (admin)."),
    "evidence": ("evidence", "What a device or an engine printed, as facts (JSON)."),
    "doctor": ("doctor", "What this machine has and lacks, with remedies."),
}


class LazyGroup(click.Group):
    """Knows its commands by name; imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(f"farm.cli.{module}"), name or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from farm.domain.names import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or "`farm --help` lists them"
            raise click.UsageError(f"There is no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"farm {version('device-farm')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Version and end.")
def cli() -> None:
    """Hardware-in-the-loop device farm for on-device AI.

    \b
    farm demo          see it work on three virtual devices
    farm up            start it for your own
    """


def main(argv: list[str] | None = None) -> int:
    """The entry point; returns (and exits with) the code."""
    code = _main(sys.argv[1:] if argv is None else argv)
    if argv is None:
        _flush()
        sys.exit(code)
    return code


def _main(argv: list[str]) -> int:
    Answer.written = False
    try:
        try:
            result = cli.main(argv, prog_name="farm", standalone_mode=False)
            return int(result or 0)
        except click.exceptions.Exit as end:
            return end.exit_code
        except (CliError, SettingsError, click.ClickException, click.Abort, KeyboardInterrupt) as error:
            failed = _failure(error)
            if isinstance(error, click.UsageError):
                error.show()
            else:
                show_error(failed.message, failed.hint)
            if "--json" in argv and not Answer.written:
                _print_failure(failed)
            return int(failed.code)
    except BrokenPipeError:  # `farm runs | head`
        return 0


class _Mistyped(CliError):
    name = "usage"


class _BadSettings(CliError):
    name = "settings"


def _failure(error: BaseException) -> CliError:
    """What ended a command, in one shape."""
    if isinstance(error, CliError):
        return error
    if isinstance(error, SettingsError):
        return _BadSettings(str(error), code=ExitCode.REFUSED)
    if isinstance(error, click.UsageError):
        of = error.ctx.command_path if error.ctx is not None else "farm"
        return _Mistyped(error.format_message(), f"{of} --help", ExitCode.REFUSED)
    if isinstance(error, click.ClickException):
        return CliError(error.format_message(), code=ExitCode.REFUSED)
    return CliError("interrupted", code=ExitCode.CANCELLED)


def _print_failure(failed: CliError) -> None:
    """The document of a command that was given `--json` and has no other to print."""
    from farm.cli.output import print_json

    print_json({"error": {"code": failed.name, "message": failed.message, "hint": failed.hint or None}})


def _flush() -> None:
    """Write out what is buffered now; a reader that went away is no error of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
