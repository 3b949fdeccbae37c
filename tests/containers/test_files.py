"""The container files, read: that they parse, agree with each other and with the program.

compose.yaml and the Kubernetes manifest are not run by any check (that takes an engine and
images from a registry); what can be checked without one is checked here.
"""

from __future__ import annotations

import re

import pytest
import yaml

import fencepost

DOCKER = fencepost.REPOSITORY / "docker"
DATA_PORT = 9000
ADMIN_PORT = 9001

# What the documentation of the admin module lists; test_processes.py asks for them.
HEALTH_PATHS = {"/livez", "/readyz"}


@pytest.fixture(scope="module")
def serve_help() -> str:
    return help_of("serve")


@pytest.fixture(scope="module")
def compose() -> dict:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def pod() -> dict:
    return yaml.safe_load((DOCKER / "kubernetes-sidecar.yaml").read_text())["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def sidecar(pod: dict) -> dict:
    return next(container for container in pod["initContainers"] if container["name"] == "fencepost")


def help_of(command: str) -> str:
    done = fencepost.run(command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(words: list[str]) -> set[str]:
    return {word.split("=", 1)[0] for word in words if word.startswith("--")}


def assert_known(words: list[str], help_text: str) -> None:
    """Every flag in `words` is one that the help lists."""
    assert words[0] == "serve"
    listed = set(re.findall(r"--[a-z][a-z-]*", help_text))
    assert flags(words) and flags(words) <= listed


def test_compose_starts_the_proxy_with_flags_it_knows(compose: dict, serve_help: str) -> None:
    assert_known(compose["services"]["fencepost"]["command"], serve_help)


def test_compose_keeps_the_store_behind_the_proxy(compose: dict) -> None:
    services = compose["services"]
    assert set(services) == {"fencepost", "minio", "prometheus"}
    assert "ports" not in services["minio"], "nobody else reaches the store"
    shared = [name for name, service in services.items() if set(service["networks"]) & set(services["minio"]["networks"])]
    assert shared == ["fencepost", "minio"]
    backend = services["fencepost"]["command"][services["fencepost"]["command"].index("--backend") + 1]
    assert backend == "http://minio:9000"
    for port in (port for service in services.values() for port in service.get("ports", [])):
        assert port.startswith("127.0.0.1:"), "an example opens no port to the world"


def test_compose_keys_fit_the_store(compose: dict) -> None:
    proxy, minio = (compose["services"][name]["environment"] for name in ("fencepost", "minio"))
    assert proxy["AWS_ACCESS_KEY_ID"] == minio["MINIO_ROOT_USER"]
    assert proxy["AWS_SECRET_ACCESS_KEY"] == minio["MINIO_ROOT_PASSWORD"]


def test_every_compose_service_is_checked_and_waited_for(compose: dict) -> None:
    services = compose["services"]
    assert all("healthcheck" in service for service in services.values())
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in services and how == {"condition": "service_healthy"}
    proxy = services["fencepost"]
    assert proxy["read_only"] is True and proxy["cap_drop"] == ["ALL"]
    assert (DOCKER / proxy["build"]["context"] / proxy["build"]["dockerfile"]).resolve() == DOCKER / "Dockerfile"


def test_prometheus_scrapes_the_admin_listener(compose: dict) -> None:
    scrape, = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"fencepost:{ADMIN_PORT}"]}]
    assert scrape["metrics_path"] == "/metrics"
    assert "./prometheus.yml:/etc/prometheus/prometheus.yml:ro" in compose["services"]["prometheus"]["volumes"]


def test_the_sidecar_starts_with_flags_it_knows(sidecar: dict, serve_help: str) -> None:
    assert_known(sidecar["args"], serve_help)


def test_the_sidecar_takes_unsigned_requests_on_loopback_only(sidecar: dict, pod: dict) -> None:
    settings = dict(word.removeprefix("--").split("=", 1) for word in sidecar["args"][1:])
    assert settings["auth"] == "none" and settings["listen"] == f"127.0.0.1:{DATA_PORT}"
    application, = pod["containers"]
    environment = {entry["name"]: entry["value"] for entry in application["env"]}
    assert environment["AWS_ENDPOINT_URL"] == f"http://{settings['listen']}"
    assert environment["AWS_DEFAULT_REGION"] == settings["region"]
    assert "envFrom" in sidecar and "envFrom" not in application, "only the proxy has the store's credentials"


def test_the_probes_ask_the_admin_listener(sidecar: dict) -> None:
    port, = sidecar["ports"]
    assert port["containerPort"] == ADMIN_PORT
    assert f"--admin=0.0.0.0:{ADMIN_PORT}" in sidecar["args"]
    asked = {sidecar[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked == HEALTH_PATHS
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/livez", "an unreachable store is no reason to restart"
    # A native sidecar: before the application up, after it down.
    assert sidecar["restartPolicy"] == "Always"


def test_the_sidecar_may_do_nothing_but_serve(sidecar: dict, pod: dict) -> None:
    context = sidecar["securityContext"]
    user, group = re.search(r"^USER (\d+):(\d+)$", (DOCKER / "Dockerfile").read_text(), re.M).groups()
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"]


def test_the_dockerfile_sets_variables_that_the_program_reads() -> None:
    variables = dict(re.findall(r"\b(FENCEPOST_[A-Z_]+)=(\S+)", (DOCKER / "Dockerfile").read_text()))
    printed = fencepost.run(
        "serve", "--print-config", environment={**variables, "FENCEPOST_BACKEND_URL": "http://127.0.0.1:1"},
    )
    assert printed.returncode == 0, printed.stderr
    # An unknown variable would have been refused; these have had their effect.
    assert f'listen = "0.0.0.0:{DATA_PORT}"' in printed.stdout.splitlines()
    assert f'admin_listen = "0.0.0.0:{ADMIN_PORT}"' in printed.stdout.splitlines()
    assert re.search(r"^  healthcheck\b", fencepost.run("--help").stdout, re.M)


def test_the_build_context_is_what_the_crate_is_made_of() -> None:
    """`.dockerignore` lets in by name; a file that the sources include must be among them."""
    allowed = {
        line.removeprefix("!") for line in (fencepost.REPOSITORY / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert {"Cargo.toml", "Cargo.lock", "src"} <= allowed
    for source in (fencepost.REPOSITORY / "src").rglob("*.rs"):
        for included in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', source.read_text()):
            inside = (source.parent / included).resolve().relative_to(fencepost.REPOSITORY)
            assert inside.parts[0] in allowed, f"{source} includes {inside}"
