"""What runs Tandem as a service: the image, the compose file and the units say what is true of the code and of one another."""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from router.cli import serve
from router.cli.setup.presets import read_presets
from router.config.load import LoadedConfig, check_config
from router.config.models import ServerSettings
from router.contract.limits import Limits
from router.edge.server import CannotListen, check_host
from router.wiring.build import known_names

ROOT = Path(__file__).resolve().parents[1]
UNITS = {kind: ROOT / "docs" / "deploy" / kind / "tandem.service" for kind in ("user", "system")}


def read_stages() -> list[list[tuple[str, str]]]:
    """The instructions of the Dockerfile, stage by stage: a name and the rest of its line."""
    text = "\n".join(line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    stages: list[list[tuple[str, str]]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append((name, re.sub(r"\s+", " ", rest.strip())))
    return stages[1:]


def last_of(name: str, stage: list[tuple[str, str]]) -> str:
    return next(rest for found, rest in reversed(stage) if found == name)


def compose() -> dict:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def unit_settings(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_image_is_built_apart_from_what_runs_and_runs_without_rights():
    build, final = read_stages()

    assert build[0][1].endswith(" AS build")
    assert [rest for name, rest in final if name == "COPY"] == ["--from=build /opt/tandem /opt/tandem"]
    assert int(last_of("USER", final)) > 0
    names = [name for name, _ in final]
    assert names.index("USER") < names.index("HEALTHCHECK") < names.index("ENTRYPOINT")


def test_the_image_installs_locked_packages_alone():
    installs = [rest for stage in read_stages() for name, rest in stage if name == "RUN" and " install " in f" {rest} "]

    locked, own = installs
    assert '--require-hashes -r "requirements/${EXTRAS}.txt"' in locked
    assert ("ARG", "EXTRAS=shared") in read_stages()[0]
    assert "--no-deps --no-build-isolation ." in own


def test_the_image_copies_files_that_exist_and_that_are_not_ignored():
    build, _ = read_stages()
    copied = {source for name, rest in build if name == "COPY" for source in rest.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert all((ROOT / source).exists() for source in copied)
    assert copied == allowed


def test_the_image_listens_on_loopback_as_the_config_demands():
    """A published port would need another address, and the router refuses every other one."""
    _, final = read_stages()

    assert last_of("CMD", final) == '["serve", "--log", "json"]'
    assert not [rest for name, rest in final if name == "EXPOSE"]
    assert compose()["services"]["tandem"]["network_mode"] == "host"
    assert "ports" not in compose()["services"]["tandem"]
    with pytest.raises(CannotListen):
        check_host("0.0.0.0")


def settings_of_team() -> tuple[dict, dict]:
    """The service of the compose file for a team, and what its first comment says of the config."""
    text = (ROOT / "docs" / "deploy" / "team" / "compose.yaml").read_text()
    shown = "\n".join(line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   "))
    return yaml.safe_load(text)["services"]["tandem"], yaml.safe_load(shown)


def test_a_port_is_published_only_where_callers_need_keys():
    service, config = settings_of_team()

    assert service["ports"] == [f"{ServerSettings().port}:{ServerSettings().port}"]
    assert config["keys"]
    check_host(config["server"]["host"], needs_keys=True)


def test_the_teams_ledger_is_in_a_volume_that_can_be_written():
    service, config = settings_of_team()
    mounts = [mount.split(":") for mount in service["volumes"]]

    assert service["read_only"]
    holding = [mount for mount in mounts if Path(config["ledger"]["path"]).is_relative_to(mount[1])]
    assert [mount[0] for mount in holding if mount[2:] != ["ro"]] == ["state"]


def test_the_manifest_for_kubernetes_has_a_config_that_passes_and_time_to_stop(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "deploy" / "kubernetes" / "tandem.yaml").read_text()
    found = {part["kind"]: part for part in yaml.safe_load_all(text)}
    config = found["ConfigMap"]["data"]["config.yaml"]
    for name in re.findall(r"env:([A-Z_]+)", config):
        monkeypatch.setenv(name, "x")
    keys = tmp_path / "keys.yaml"
    keys.touch(0o600)

    loaded = check_config(config.replace("/etc/tandem-keys/keys.yaml", str(keys)), "manifest", tmp_path, known_names())

    assert loaded.keys is not None
    pod = found["Deployment"]["spec"]["template"]["spec"]
    stops = loaded.config.server.stop_listening_after_seconds + loaded.config.limits.drain_seconds
    assert stops > Limits().drain_seconds
    assert pod["terminationGracePeriodSeconds"] > stops
    assert found["Deployment"]["spec"]["replicas"] == 1
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"


SEVERAL = ROOT / "docs" / "deploy" / "several"
FLEET = ROOT / "docs" / "deploy" / "kubernetes" / "several"
LEAST_SECRET = "s" * 32
ADDRESSES = {"TANDEM_VALKEY_URL": "redis://valkey", "TANDEM_POSTGRES_URL": "postgresql://u@postgres/tandem"}


def parts_of_fleet() -> list[dict]:
    """The resources that the kustomization names."""
    named = yaml.safe_load((FLEET / "kustomization.yaml").read_text())["resources"]
    return [part for name in named for part in yaml.safe_load_all((FLEET / name).read_text())]


def manifests() -> list[dict]:
    return [*yaml.safe_load_all((ROOT / "docs" / "deploy" / "kubernetes" / "tandem.yaml").read_text()), *parts_of_fleet()]


@pytest.mark.parametrize("part", manifests(), ids=lambda part: f"{part['kind']}-{part['metadata']['name']}")
def test_every_manifest_is_what_kubernetes_accepts(part):
    version = kubernetes_validate.latest_version()

    kubernetes_validate.validate(part, version, strict=True)

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**part, "spce": {}}, version, strict=True)


def load_several(path: Path, folder: Path, monkeypatch) -> LoadedConfig:
    text = path.read_text()
    for name in re.findall(r"env:([A-Z_]+)", text):
        monkeypatch.setenv(name, ADDRESSES.get(name, LEAST_SECRET))
    (keys := folder / "keys.yaml").touch(0o600)
    return check_config(re.sub(r"keys: \{file: \S+\}", f"keys: {{file: {keys}}}", text), path.name, folder, known_names())


@pytest.mark.parametrize("folder", [SEVERAL, FLEET], ids=["compose", "kubernetes"])
def test_several_routers_have_a_config_that_shares_everything_and_needs_keys(folder, tmp_path, monkeypatch):
    loaded = load_several(folder / "config.yaml", tmp_path, monkeypatch)

    assert loaded.unshared == []
    assert loaded.keys is not None
    check_host(loaded.config.server.host, needs_keys=True)


def test_routers_in_kubernetes_have_time_to_drain_probes_a_volume_each_and_leave_one_by_one(tmp_path, monkeypatch):
    loaded = load_several(FLEET / "config.yaml", tmp_path, monkeypatch)
    found = {(part["kind"], part["metadata"]["name"]): part["spec"] for part in parts_of_fleet()}
    routers, scaling = found["StatefulSet", "tandem"], found["HorizontalPodAutoscaler", "tandem"]
    pod = routers["template"]["spec"]
    container = pod["containers"][0]

    assert pod["terminationGracePeriodSeconds"] == loaded.config.limits.drain_seconds + 15
    assert loaded.config.server.stop_listening_after_seconds < 15
    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert probes == ["/healthz", "/readyz", "/healthz"]
    assert routers["volumeClaimTemplates"][0]["metadata"]["name"] in [mount["name"] for mount in container["volumeMounts"]]
    assert found["PodDisruptionBudget", "tandem"]["maxUnavailable"] == 1
    assert found["Service", "tandem"]["sessionAffinity"] == "None"
    labels = routers["template"]["metadata"]["labels"]
    selectors = [found["Service", name]["selector"] for name in ("tandem", "tandem-routers")]
    assert [*selectors, found["PodDisruptionBudget", "tandem"]["selector"]["matchLabels"]] == [labels] * 3
    assert scaling["scaleTargetRef"]["kind"] == "StatefulSet"
    assert scaling["minReplicas"] == routers["replicas"] == 3
    assert scaling["metrics"][0]["pods"]["metric"]["name"] in (ROOT / "docs" / "reference" / "metrics.md").read_text()


def test_several_routers_of_compose_have_a_volume_each_and_a_balancer_that_knows_all_of_them():
    found = yaml.safe_load((SEVERAL / "compose.yaml").read_text())
    routers = {name: service for name, service in found["services"].items() if service["image"] == "tandem"}
    balancer = (SEVERAL / "nginx.conf").read_text()

    assert len(routers) == 3
    assert re.findall(r"^\s*server ([a-z0-9-]+):4000", balancer, re.MULTILINE) == list(routers)
    assert len({service["volumes"][0].partition(":")[0] for service in routers.values()} & found["volumes"].keys()) == 3
    assert "ip_hash" not in balancer
    assert "proxy_buffering off" in balancer
    for service in routers.values():
        assert int(service["stop_grace_period"].removesuffix("s")) == Limits().drain_seconds + 15
        assert service["environment"].keys() == ADDRESSES.keys()
        assert "ports" not in service
        assert service["depends_on"].keys() == {"valkey", "postgres"} <= found["services"].keys()


class Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_images_health_check_asks_without_a_tool_that_is_not_there(status, code):
    _, final = read_stages()
    program, *arguments = ast.literal_eval(last_of("HEALTHCHECK", final).split(" CMD ")[1])
    assert program == "python"
    port = ServerSettings().port
    assert f"'127.0.0.1', {port}," in arguments[1]

    handler = type("Answer", (Health,), {"status": status or 200})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        if status:
            threading.Thread(target=server.handle_request, daemon=True).start()
        else:
            server.socket.close()
        code_here = arguments[1].replace(f" {port},", f" {server.server_port},")
        done = subprocess.run([sys.executable, arguments[0], code_here], capture_output=True)

    assert done.returncode == code


def test_compose_keeps_the_ledger_where_the_image_works_and_gives_away_every_right():
    _, final = read_stages()
    service, folder = compose()["services"]["tandem"], last_of("WORKDIR", final)

    assert last_of("VOLUME", final) == folder
    assert service["volumes"] == [f"state:{folder}", f"./config.yaml:{folder}/config.yaml:ro"]
    assert "state" in compose()["volumes"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose_hands_on_every_key_that_init_may_name_in_a_config():
    named = {variable for provider in read_presets().providers.values() for variable in provider.keys}

    assert set(compose()["services"]["tandem"]["environment"]) == named


def test_whatever_stops_the_router_waits_longer_than_it_drains():
    waits = [compose()["services"]["tandem"]["stop_grace_period"].removesuffix("s")]
    waits += [unit_settings(path)["TimeoutStopSec"] for path in UNITS.values()]

    assert all(int(wait) > Limits().drain_seconds for wait in waits)


@pytest.mark.release
def test_hadolint_finds_nothing_in_the_dockerfile():
    if not (hadolint := shutil.which("hadolint")):
        pytest.skip("hadolint is not here, which make test-release installs: the Dockerfile was NOT READ by it")

    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", UNITS)
def test_systemd_finds_nothing_in_a_unit(kind, tmp_path):
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("systemd-analyze is not installed: the units were not verified")
    text = UNITS[kind].read_text()
    command = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE).group(1)
    (tmp_path / "tandem.service").write_text(text.replace(command, sys.executable))
    listening = [shutil.copy(path, tmp_path) for path in [UNITS[kind].with_name("tandem.socket")] if path.exists()]

    done = subprocess.run(
        [analyze, "verify", *(["--user"] if kind == "user" else []), str(tmp_path / "tandem.service"), *listening],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )

    assert (done.returncode, [line for line in done.stderr.splitlines() if "tandem." in line]) == (0, [])


def test_the_socket_of_a_unit_listens_where_a_router_does_by_default():
    usual = ServerSettings()

    assert unit_settings(UNITS["user"].with_name("tandem.socket"))["ListenStream"] == f"{usual.host}:{usual.port}"


@pytest.mark.parametrize("kind", UNITS)
def test_a_unit_runs_a_command_that_the_router_knows(kind):
    _, command, *arguments = unit_settings(UNITS[kind])["ExecStart"].split()
    parser = argparse.ArgumentParser(exit_on_error=False)
    serve.add_arguments(parser)

    assert command == "serve"
    assert parser.parse_args(arguments).log == "json"
