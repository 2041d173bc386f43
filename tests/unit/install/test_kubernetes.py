"""The manifests of ``docs/examples/kubernetes``: valid by Kubernetes' own schemas, and of one mind with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pydantic import ValidationError

from chsink.config import Config, load
from chsink.errors import halts
from chsink.jvm.jars import SPARK_KAFKA, pins
from chsink.observe.probes import Probes
from chsink.stop import END_S
from tests.conftest import CHECKOUT
from tests.unit.install.test_image import PROJECT, environment, rest_of

EXAMPLES = CHECKOUT / "docs" / "examples" / "kubernetes"
LOCAL, OPERATOR = EXAMPLES / "local", EXAMPLES / "spark-operator"
FOLDERS = pytest.mark.parametrize("folder", [LOCAL, OPERATOR], ids=lambda folder: folder.name)
VERSIONS = ("1.30", "1.34")
"""Of Kubernetes: the oldest and the newest that the manifests are checked with."""
Object = dict[str, Any]


def kustomization(folder: Path) -> Object:
    loaded: Object = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    return loaded


def objects(folder: Path) -> Iterator[Object]:
    """Every object of the folder's resources."""
    for name in kustomization(folder)["resources"]:
        yield from yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))


def pods(folder: Path) -> Iterator[Object]:
    """Every pod template, with the container of chsink's driver first."""
    for each in objects(folder):
        spec = each.get("spec", {})
        if each["kind"] == "Deployment":
            yield spec["template"]
        elif each["kind"] == "SparkApplication":
            yield spec["driver"]["template"]
            yield spec["executor"]["template"]


def driver(folder: Path) -> Object:
    found: Object = next(pods(folder))["spec"]
    return found


def job(folder: Path) -> Config:
    return load(folder / "job.toml", environ={**environment(), "CLICKHOUSE_PASSWORD": "x"})


def as_pod(template: Object) -> Object:
    """A pod template by itself, as Kubernetes checks it; Spark adds the image."""
    containers = [{"image": "chsink", **each} for each in template["spec"]["containers"]]
    metadata = {"name": "pod", **template.get("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**template["spec"], "containers": containers},
    }


@FOLDERS
@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_accept_them(folder: Path, version: str) -> None:
    checked = [each for each in objects(folder) if each["kind"] != "SparkApplication"]
    assert checked
    for each in [*checked, *map(as_pod, pods(folder))]:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    pod = as_pod(next(pods(LOCAL)))
    pod["spec"]["containers"][0]["livenessProbe"]["httpGett"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def lost(given: Any, kept: Any, at: str = "") -> Iterator[str]:
    """The fields that are in ``given`` and not in ``kept``."""
    if isinstance(given, dict):
        for name in given:
            yield from lost(given[name], kept[name], f"{at}.{name}") if name in kept else [f"{at}.{name}"]
    elif isinstance(given, list):
        for number, each in enumerate(given):
            yield from lost(each, kept[number], f"{at}[{number}]")
    elif given != kept:
        yield at


def unknown_to_the_operator(application: Object) -> list[str]:
    """Fields that its schema does not have.  ValidationError for values that it refuses."""
    # Takes a second, which each worker of a parallel run would spend when it collects this file.
    from kubeflow_spark_api.models import spark_v1beta2_spark_application as operator

    read = operator.SparkV1beta2SparkApplication.from_dict(application)
    assert read is not None
    return list(lost(application, read.to_dict()))


def test_the_schema_of_the_operator_accepts_the_application() -> None:
    [application] = [each for each in objects(OPERATOR) if each["kind"] == "SparkApplication"]
    assert unknown_to_the_operator(application) == []
    application["spec"]["driver"]["coresPerNode"] = 1
    assert unknown_to_the_operator(application) == [".spec.driver.coresPerNode"]
    application["spec"]["driver"]["cores"] = "one"
    with pytest.raises(ValidationError, match=r"cores\n.*valid integer"):
        unknown_to_the_operator(application)


@FOLDERS
def test_kustomize_renders_them(folder: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl: it is not installed")
    said = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    made = list(yaml.safe_load_all(said))
    names = {(each["kind"], each["metadata"]["name"]) for each in made}
    assert len(made) == len(names) == len(list(objects(folder))) + 2
    assert {each["metadata"]["namespace"] for each in made} == {"chsink"}
    for kind, name in referred(next(each for each in made if each["kind"] in ("Deployment", "SparkApplication"))):
        assert (kind, name) in names, "what a pod mounts or reads is there under its final name"
    assert f"registry.example.com/chsink:{PROJECT['version']}" in said


def referred(of: Object) -> Iterator[tuple[str, str]]:
    """(kind, name) of what the driver's pod needs."""
    spec = of["spec"].get("template", of["spec"].get("driver", {}).get("template"))["spec"]
    for volume in spec["volumes"]:
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        elif "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
    for source in spec["containers"][0]["envFrom"]:
        yield "Secret", source["secretRef"]["name"]


@FOLDERS
def test_the_job_file_is_valid_and_fits_its_pod(folder: Path) -> None:
    [config_map], [secret] = kustomization(folder)["configMapGenerator"], kustomization(folder)["secretGenerator"]
    assert config_map["files"] == ["job.toml"]
    given = {line.partition("=")[0] for line in (folder / secret["envs"][0]).read_text().splitlines()}
    assert given == set(re.findall(r'env = "(\w+)"', (folder / "job.toml").read_text()))
    config = job(folder)
    assert config.observe.stay_after_halt, "what ends is started again"
    container = driver(folder)["containers"][0]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(Path(config.required_checkpoint()).parent) in mounts
    assert "/etc/chsink" in mounts


def test_arguments_name_the_mounted_job_file() -> None:
    [application] = [each for each in objects(OPERATOR) if each["kind"] == "SparkApplication"]
    assert driver(LOCAL)["containers"][0]["args"] == ["run", *application["spec"]["arguments"]]
    assert application["spec"]["arguments"] == ["-c", "/etc/chsink/job.toml"]


@FOLDERS
def test_probes_ask_what_the_driver_answers(folder: Path) -> None:
    """⚑ A liveness probe that failed for a halt would start the job in a loop."""
    container = driver(folder)["containers"][0]
    assert (
        [port["containerPort"] for port in container["ports"]]
        == [int(rest_of("EXPOSE")[0])]
        == [job(folder).observe.metrics_port]
    )
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    probes = Probes()
    probes.ended(halts.PLAN_BEYOND_LOG(tp="t-3", planned="[10, 20)", end=7))
    assert probes.alive().good and not probes.ready().good


def test_a_stop_has_time() -> None:
    """In one pod: below spark-submit, Java gets the signal, and ends at once."""
    assert driver(LOCAL)["terminationGracePeriodSeconds"] >= 2 * END_S


@FOLDERS
def test_pods_run_as_the_user_of_the_image(folder: Path) -> None:
    for template in pods(folder):
        context = template["spec"]["securityContext"]
        assert context["runAsNonRoot"] and f"{context['runAsUser']}:{context['runAsGroup']}" == rest_of("USER")[0]


def test_one_driver_at_a_time() -> None:
    [deployment] = [each for each in objects(LOCAL) if each["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_the_application_names_the_pinned_jars_and_sparks_version() -> None:
    [application] = [each for each in objects(OPERATOR) if each["kind"] == "SparkApplication"]
    spec, cache = application["spec"], environment()["CHSINK_CACHE"]
    assert spec["deps"]["jars"] == [f"local://{cache}/jars/{jar.file_name}" for jar in pins()[SPARK_KAFKA]]
    [source] = [jar for jar in pins()[SPARK_KAFKA] if jar.name.startswith("spark-sql-kafka")]
    assert spec["sparkVersion"] == source.version
    assert spec["mainApplicationFile"] == "local:///opt/chsink/lib/submit.py"
