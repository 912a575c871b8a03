"""The steps of KubeRay's operator and of a kubelet, played on machines of namespaces: pods are machines.

Command lines, variables and probes are those that the operator makes (release 1.6, `pod.go` and `job.go` in
ray-operator/controllers/ray/common): a pod that becomes ready here would become ready there.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.helpers import harness
from tests.machines.api_server import ApiServer, within
from tests.machines.machines import Machine, Machines

T = TypeVar("T")

# Pods have only what the operator gives them; machines of namespaces have a token of their own.
UNNAMED = ("env", "-u", "HELIOSTAT_AUTH_TOKEN")

EXAMPLES = Path(__file__).parents[2] / "examples" / "kubernetes"
NAMESPACE = "default"
AGENT, DASHBOARD, METRICS, SERVE, HEAD = 52365, 8265, 8080, 8000, 6379
# `wget -T SECONDS -q -O- URL`, as probes call it.
WGET = """
import sys, urllib.request
sys.stdout.write(urllib.request.urlopen(sys.argv[-1], timeout=float(sys.argv[2])).read().decode())
"""
# What takes no argument in `rayStartParams`, unless it is one of these.
_TAKES_WORD = ("log-color", "include-dashboard")


def example(name: str) -> dict[str, Any]:
    """A resource of examples/kubernetes."""
    resource: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return resource


def cpus_of(quantity: str) -> int:
    return -(-int(quantity[:-1]) // 1000) if quantity.endswith("m") else int(quantity)


def bytes_of(quantity: str) -> int:
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    return int(quantity[:-2]) * units[quantity[-2:]] if quantity[-2:] in units else int(quantity)


def flags(params: Mapping[str, str]) -> str:
    """As the operator's `convertParamMap`."""
    words = []
    for option in sorted(params):
        value = params[option]
        if value.lower() in ("true", "false") and option not in _TAKES_WORD:
            words += [f" --{option} "] if value.lower() == "true" else []
        else:
            words.append(f" --{option}={value} ")
    return "".join(words)


@dataclass
class Pod:
    """A machine with the containers of a pod."""

    name: str
    cluster: str
    group: str
    machine: Machine
    env: dict[str, str]
    is_head: bool = False
    containers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    is_ready: bool = False
    ready_s: float = 0.0
    probes: list[str] = field(default_factory=list)

    def run(self, name: str, *argv: str, env: Mapping[str, str] | None = None) -> None:
        """Start a container; what it says goes to a file."""
        with (self.machine.directory / f"{name}.log").open("ab") as log:
            self.containers[name] = subprocess.Popen(
                self.machine.command((*UNNAMED, *argv), {**self.env, **(env or {})}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=harness.clean_env(),
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        return (self.machine.directory / f"{name}.log").read_text(errors="replace")

    def command(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`kubectl exec`."""
        return self.machine.run(*UNNAMED, *argv, env=self.env, check=check)


class Operator:
    """`field`'s first machine is Kubernetes itself; every pod is another one."""

    def __init__(self, field: Machines) -> None:
        self.field = field
        self.plane = field.all[0]
        self.api = ApiServer(self.plane, field.directory / "account")
        self.pods: dict[str, Pod] = {}
        self.tokens: dict[str, str] = {}
        self.failures: list[BaseException] = []
        self._hosts: dict[str, str] = {}
        self._count = 0
        self._is_over = threading.Event()
        # While it is not set no pod is made: Kubernetes has no machine for it.
        self.has_room = threading.Event()
        self.has_room.set()
        self._threads: list[threading.Thread] = []
        self._go(self._reconcile)

    def _go(self, do: Any, *args: Any) -> None:
        def guarded() -> None:
            try:
                do(*args)
            except BaseException as error:
                if not self._is_over.is_set():
                    self.failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- what kubectl does

    def apply(self, cluster: dict[str, Any]) -> str:
        """Create a RayCluster; its path in the API."""
        name = cluster["metadata"]["name"]
        cluster["metadata"].setdefault("namespace", NAMESPACE)
        path = self.path(name)
        if (cluster["spec"].get("authOptions") or {}).get("mode") == "token":
            self.tokens[name] = secrets.token_hex(16)
        self.api.put(path, cluster)
        return path

    def path(self, name: str) -> str:
        return f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/{name}"

    def of(self, cluster: str, group: str = "") -> list[Pod]:
        """The pods of a cluster that are not being deleted."""
        pods = [pod for pod in self.pods.values() if pod.cluster == cluster]
        return [pod for pod in pods if not group or pod.group == group]

    def head(self, cluster: str) -> Pod:
        return next(pod for pod in self.of(cluster) if pod.is_head)

    def wait_ready(self, cluster: str, count: int, within: float = 90.0) -> list[Pod]:
        """So many pods, all of them ready."""

        def ready() -> list[Pod] | None:
            pods = self.of(cluster)
            return pods if len(pods) == count and all(pod.is_ready for pod in pods) else None

        return self.until(ready, cluster, f"{count} ready pods", within)

    def until(
        self, probe: Callable[[], T | None], cluster: str, what: str, within: float = 60.0
    ) -> T:
        """Wait for something; a failure shows what the pods of the cluster say."""

        def checked() -> T | None:
            self.check()
            return probe()

        try:
            return harness.wait_until(checked, within=within, every=0.05, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(cluster)}") from error

    def told(self, cluster: str) -> str:
        """What the pods say, for the report of a failure."""
        parts = []
        for pod in self.of(cluster):
            logs = "\n".join(f"-- {name}\n{pod.log(name)[-3000:]}" for name in pod.containers)
            parts.append(f"== {pod.name} ready={pod.is_ready} {pod.probes[-3:]}\n{logs}")
        return "\n".join(parts)

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]

    def submitter(self, cluster: str) -> Pod:
        """A pod with the image of the cluster that is none of its nodes."""
        self._count += 1
        machine = Machine(self.field, self._count)
        self.field.all.append(machine)
        self._set_up(machine)
        env = {"PATH": self._path()} | self._auth(cluster)
        pod = Pod(f"{cluster}-submitter", "", "", machine, env)
        self.pods[pod.name] = pod
        return pod

    def _path(self) -> str:
        """Where programs are; the image has wget, and this machine may not."""
        own = self.field.directory / "bin"
        if not own.exists():
            own.mkdir()
            if shutil.which("wget") is None:
                (own / "wget").write_text(f"#!{sys.executable}\n{WGET}")
                (own / "wget").chmod(0o755)
        return f"{Path(sys.executable).parent}:{own}:{os.environ['PATH']}"

    def _auth(self, cluster: str) -> dict[str, str]:
        """What the image says, or what the operator says instead."""
        if cluster not in self.tokens:
            return {"RAY_AUTH_MODE": "disabled"}
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.tokens[cluster]}

    def service(self, cluster: str) -> str:
        return f"{cluster}-head-svc.{NAMESPACE}.svc.cluster.local"

    def ask(
        self, cluster: str, method: str, path: str, body: Any = None, *, port: int = DASHBOARD
    ) -> tuple[int, str]:
        """The operator's own HTTP requests, by the name of the head's service."""
        token = self.tokens.get(cluster)
        headers = {"Host": f"{self.service(cluster)}:{port}", "User-Agent": "Go-http-client/1.1"}
        if token is not None:
            headers["x-ray-authorization"] = f"Bearer {token}"
        return self.fetch(self.head(cluster).machine.ip, port, method, path, headers, body)

    def fetch(
        self,
        ip: str,
        port: int,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        timeout: float = 60,
    ) -> tuple[int, str]:
        """One request from the machine of Kubernetes itself."""

        def request() -> tuple[int, str]:
            link = http.client.HTTPConnection(ip, port, timeout=timeout)
            try:
                data = None if body is None else json.dumps(body).encode()
                kind = {} if body is None else {"Content-Type": "application/json"}
                link.request(method, path, data, {**(headers or {}), **kind})
                answer = link.getresponse()
                return answer.status, answer.read().decode()
            finally:
                link.close()

        return within(self.plane, request)

    # --- what the operator does

    def _reconcile(self) -> None:
        while not self._is_over.wait(0.05):
            with self.api.changed:
                found = {
                    path: json.loads(json.dumps(one))
                    for path, one in self.api.resources.items()
                    if "/rayclusters/" in path
                }
            names = {one["metadata"]["name"] for one in found.values()}
            for pod in list(self.pods.values()):
                if pod.cluster and pod.cluster not in names:
                    self._delete(pod)
            for cluster in found.values():
                self._reconcile_one(cluster)

    def _reconcile_one(self, cluster: dict[str, Any]) -> None:
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        if not self.of(name):
            self._create(cluster, spec["headGroupSpec"], "headgroup")
        for group in spec.get("workerGroupSpecs", []):
            doomed = (group.get("scaleStrategy") or {}).get("workersToDelete") or []
            for pod in [pod for pod in self.of(name) if pod.name in doomed]:
                self._delete(pod)
            pods = self.of(name, group["groupName"])
            wanted = min(max(group["replicas"], group["minReplicas"]), group["maxReplicas"])
            for _ in range(wanted - len(pods) if self.has_room.is_set() else 0):
                self._create(cluster, group, group["groupName"])
            # Without an autoscaler the operator itself chooses whom to delete.
            if not spec.get("enableInTreeAutoscaling"):
                for pod in pods[wanted:]:
                    self._delete(pod)

    def _create(self, cluster: dict[str, Any], group: dict[str, Any], group_name: str) -> None:
        self._count += 1
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        is_head = group_name == "headgroup"
        machine = Machine(self.field, self._count)
        self.field.all.append(machine)
        pod_name = f"{name}-{group_name}-{secrets.token_hex(3)}"
        container = group["template"]["spec"]["containers"][0]
        params = self._start_params(cluster, group, is_head)
        command = f"ray start {'--head ' if is_head else ''}{flags(params)}"
        env = {
            # What the image has.
            "PATH": self._path(),
            **{row["name"]: row["value"] for row in container.get("env", []) if "value" in row},
            **self.api.environment(),
            "RAY_CLUSTER_NAME": name,
            "RAY_CLOUD_INSTANCE_ID": pod_name,
            "RAY_NODE_TYPE_NAME": group_name,
            "KUBERAY_GEN_RAY_START_CMD": command,
            "RAY_PORT": str(HEAD),
            "RAY_ADDRESS": f"{'127.0.0.1' if is_head else self.service(name)}:{HEAD}",
            "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
            "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
        }
        env |= self._auth(name)
        if not is_head:
            env |= {"FQ_RAY_IP": self.service(name), "RAY_IP": f"{name}-head-svc"}
        if cluster["metadata"].get("labels", {}).get("ray.io/originated-from-crd") == "RayService":
            env |= {
                "RAY_timeout_ms_task_wait_for_death_info": "0",
                "RAY_gcs_server_request_timeout_seconds": "5",
                "RAY_SERVE_KV_TIMEOUT_S": "5",
            }
        autoscaler = spec.get("enableInTreeAutoscaling", False) and is_head
        if autoscaler and (spec.get("autoscalerOptions") or {}).get("version") == "v2":
            env["RAY_enable_autoscaler_v2"] = "true"
        pod = Pod(pod_name, name, group_name, machine, env, is_head)
        self.pods[pod_name] = pod
        self._publish(pod, container)
        if is_head:
            self._hosts[self.service(name)] = machine.ip
        self._set_up(machine)
        self._go(self._start, pod, cluster, command, autoscaler)

    def _start_params(
        self, cluster: dict[str, Any], group: dict[str, Any], is_head: bool
    ) -> dict[str, str]:
        params = {key: str(value) for key, value in group.get("rayStartParams", {}).items()}
        limits = group["template"]["spec"]["containers"][0]["resources"].get("limits", {})
        if is_head:
            params.setdefault("dashboard-host", "0.0.0.0")
            if cluster["spec"].get("enableInTreeAutoscaling"):
                params["no-monitor"] = "true"
        else:
            name = cluster["metadata"]["name"]
            params.setdefault("address", f"{self.service(name)}:{HEAD}")
        if group.get("labels"):
            pairs = [f"{key}={value}" for key, value in sorted(group["labels"].items())]
            params["labels"] = f"'{','.join(pairs)}'"
        params.setdefault("metrics-export-port", str(METRICS))
        params["block"] = "true"
        params.setdefault("dashboard-agent-listen-port", str(AGENT))
        if "cpu" in limits:
            params.setdefault("num-cpus", str(cpus_of(str(limits["cpu"]))))
        if "memory" in limits:
            params.setdefault("memory", str(bytes_of(str(limits["memory"]))))
        return params

    def _set_up(self, machine: Machine) -> None:
        """What a pod finds: a route to everywhere, the names of services, a service account."""
        hosts = machine.directory / "hosts"
        lines = [f"{ip} {name} {name.partition('.')[0]}" for name, ip in self._hosts.items()]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
        account = "/run/secrets/kubernetes.io/serviceaccount"
        script = (
            f"ip route add default dev eth0 && mount --bind {hosts} /etc/hosts && "
            f"mount -t tmpfs tmpfs /run && mkdir -p {account} && cp {self.api.account}/* {account}"
        )
        machine.run("bash", "-c", script)

    def _publish(self, pod: Pod, container: dict[str, Any] | None = None) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}"
        kind = "head" if pod.is_head else "worker"
        condition = {"type": "Ready", "status": str(pod.is_ready)}
        self.api.put(
            path,
            {
                "metadata": {
                    "name": pod.name,
                    "labels": {
                        "ray.io/cluster": pod.cluster,
                        "ray.io/group": pod.group,
                        "ray.io/node-type": kind,
                    },
                },
                "spec": {"containers": [container] if container else []},
                "status": {
                    "phase": "Running" if "ray" in pod.containers else "Pending",
                    "podIP": pod.machine.ip,
                    "conditions": [condition],
                    "containerStatuses": [],
                },
            },
        )

    def _start(self, pod: Pod, cluster: dict[str, Any], command: str, autoscaler: bool) -> None:
        spec = cluster["spec"]
        if not pod.is_head:
            check = f"ray health-check --address {self.service(pod.cluster)}:{HEAD}"
            wait = f"until {check} > /dev/null 2>&1; do sleep 0.2; done; {check}"
            pod.run("init", "/bin/bash", "-c", "--", wait)
            if pod.containers["init"].wait(120):
                raise AssertionError(f"{pod.name}: {pod.log('init')}")
        pod.run("ray", "/bin/bash", "-c", "--", f"ulimit -n 65536; {command}")
        if autoscaler:
            names = f"--cluster-name {pod.cluster} --cluster-namespace {NAMESPACE}"
            env = {
                "RAY_CLUSTER_NAME": pod.cluster,
                "RAY_CLUSTER_NAMESPACE": NAMESPACE,
                "RAY_HEAD_POD_NAME": pod.name,
                "KUBERAY_CRD_VER": "v1",
            }
            shell = ("/bin/bash", "-c", "--", f"ray kuberay-autoscaler {names}")
            pod.run("autoscaler", *shell, env=env)
        self._publish(pod)
        is_service = "RAY_SERVE_KV_TIMEOUT_S" in pod.env
        version = tuple(int(part) for part in spec.get("rayVersion", "2.46.0").split("."))
        while not self._is_over.is_set() and pod.name in self.pods:
            self._probe(pod, version, is_service)
            time.sleep(0.2)

    def _probe(self, pod: Pod, version: tuple[int, ...], is_service: bool) -> None:
        """Readiness, as the operator has it asked for."""
        agent = f"wget -T 2 -q -O- http://localhost:{AGENT}/api/local_raylet_healthz | grep success"
        head = f"wget -T 10 -q -O- http://localhost:{DASHBOARD}/api/gcs_healthz | grep success"
        serve = f"wget -T 10 -q -O- http://localhost:{SERVE}/-/healthz | grep success"
        commands = [agent, head] if pod.is_head else [agent]
        serves = is_service and not pod.is_head
        if version >= (2, 53) and not serves:
            try:
                asked = (pod.machine.ip, AGENT, "GET", "/api/healthz")
                status, text = self.fetch(*asked, timeout=2)
            except OSError as error:
                status, text = 0, str(error)
            is_ready = 200 <= status < 400
        else:
            commands += [serve] if serves else []
            # A kubelet ends what has not answered in time; wget by itself tries again and again.
            seconds = "5" if pod.is_head else "2"
            done = pod.command("timeout", seconds, "bash", "-c", " && ".join(commands), check=False)
            is_ready, text = done.returncode == 0, done.stdout + done.stderr
        pod.probes = [*pod.probes[-20:], text]
        if is_ready and not pod.is_ready:
            pod.ready_s = time.monotonic()
        if is_ready != pod.is_ready:
            pod.is_ready = is_ready
            self._publish(pod)

    def _delete(self, pod: Pod) -> None:
        """SIGTERM, a grace, and what is left goes."""
        self.pods.pop(pod.name, None)
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}")
        self._go(self._end, pod)

    def lose(self, pod: Pod) -> None:
        """Its machine loses its power: no goodbye reaches anybody."""
        pod.machine.cut()
        self.pods.pop(pod.name, None)
        self._go(self._lose, pod)

    def _lose(self, pod: Pod) -> None:
        self._kill(pod)
        pod.machine.power_off()

    def _end(self, pod: Pod) -> None:
        pod.machine.signal_all(signal.SIGTERM)
        for container in pod.containers.values():
            try:
                container.wait(30)
            except subprocess.TimeoutExpired:
                self._kill(pod)
        pod.machine.power_off()

    def _kill(self, pod: Pod) -> None:
        """From within: whoever has entered the machine waits for what it started there."""
        pod.machine.signal_all(signal.SIGKILL)
        for container in pod.containers.values():
            container.wait(60)

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(40)
        self.api.close()
        for pod in self.pods.values():
            self._kill(pod)
