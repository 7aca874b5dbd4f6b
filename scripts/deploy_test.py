#!/usr/bin/env python3
"""Tests of deploy/ and docker-compose.yml, without systemd as the first process and without Docker.

Needs PyYAML (`make containers` runs it where it is), systemd-analyze and redis-server.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
UNIT = ROOT / "deploy/threadline.service"
DROP_IN = ROOT / "deploy/threadline.service.d/postgres.conf"
# Highest exposure of the unit, in tenths: systemd-analyze counts from 0 (sealed off) to 10.
EXPOSURE = 15
# What a variable or an argument must not hold, whatever it is called.
SECRET = re.compile(r"PASSWORD\}|API_KEY\}|://[^/@\s]*:[^/@\s]*@|requirepass", re.I)


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class Unit(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def exposure(self, text, threshold=EXPOSURE):
        (self.folder / UNIT.name).write_text(text)
        return run("systemd-analyze", "security", "--no-pager", "--offline=yes", f"--threshold={threshold}", str(self.folder / UNIT.name))

    def test_the_unit_is_sealed_off(self):
        done = self.exposure(UNIT.read_text())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_option_less_is_seen(self):
        for option in ("SystemCallFilter", "CapabilityBoundingSet", "DynamicUser"):
            left = "".join(line for line in UNIT.read_text().splitlines(True) if not line.startswith(f"{option}="))
            self.assertNotEqual(left, UNIT.read_text())
            self.assertNotEqual(self.exposure(left).returncode, 0, option)

    def complaints(self, unit, drop_in):
        # The program is not installed where the tests run.
        (self.folder / UNIT.name).write_text(unit.replace("/usr/local/bin/threadline", "/bin/true"))
        (self.folder / f"{UNIT.name}.d").mkdir(exist_ok=True)
        (self.folder / f"{UNIT.name}.d" / DROP_IN.name).write_text(drop_in)
        done = run("systemd-analyze", "verify", "--man=no", str(self.folder / UNIT.name))
        return f"{done.stderr}{done.returncode or ''}"

    def test_systemd_knows_every_option(self):
        self.assertEqual(self.complaints(UNIT.read_text(), DROP_IN.read_text()), "")
        self.assertIn("ProtectClok", self.complaints(UNIT.read_text().replace("ProtectClock", "ProtectClok"), DROP_IN.read_text()))
        self.assertIn("LoadCredentiel", self.complaints(UNIT.read_text(), DROP_IN.read_text().replace("LoadCredential", "LoadCredentiel")))

    def test_what_the_server_needs_is_left_to_it(self):
        options = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] not in "#[ ")
        # The server raises its limit of open files, and would be refused or killed.
        self.assertEqual((options["SystemCallFilter"], options["SystemCallErrorNumber"]), ("@system-service", "EPERM"))
        self.assertNotIn("127.", options["IPAddressDeny"])
        self.assertIn("169.254.0.0/16", options["IPAddressDeny"].split())

    def test_each_credential_is_read_and_no_secret_is_a_variable(self):
        for text in (UNIT.read_text(), DROP_IN.read_text()):
            settings = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
            loaded = re.findall(r"^LoadCredential=([a-z-]+):/etc/threadline/\1$", settings, re.M)
            read = re.findall(r"THREADLINE_[A-Z_]+_FILE=%d/([a-z-]+)", settings)
            self.assertTrue(loaded)
            self.assertEqual(loaded, read)
            self.assertNotRegex(settings, SECRET)


class Secrets(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.made = self.make()

    def make(self):
        done = run(str(ROOT / "deploy/secrets.sh"), str(self.folder / "secrets"), umask=0o022)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {path.name: path.read_text() for path in (self.folder / "secrets").iterdir()}

    def test_they_are_their_owners(self):
        for path in [self.folder / "secrets", *(self.folder / "secrets").iterdir()]:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)

    def test_they_agree_and_stay(self):
        self.assertIn(f":{self.made['postgres-password'].strip()}@", self.made["store-url"])
        self.assertIn(f":{self.made['redis.conf'].split()[1]}@", self.made["redis-url"])
        self.assertRegex(self.made["secret-key"], r"^k1:[A-Za-z0-9+/]{43}=\n$")
        self.assertEqual(self.make(), self.made)
        # One that is lost is made from what is left.
        (self.folder / "secrets/redis-url").unlink()
        self.assertEqual(self.make(), self.made)

    def test_redis_starts_as_compose_starts_it_and_asks_for_the_password(self):
        service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["redis"]
        socket = str(self.folder / "redis.sock")
        command = [part.replace("/run/secrets", str(self.folder / "secrets")) for part in service["entrypoint"] + service["command"]]
        path = f"{os.environ['PATH']}:/usr/sbin"
        with subprocess.Popen([*command, "--port", "0", "--unixsocket", socket], env={**os.environ, "PATH": path}, cwd=self.folder,
                              stdout=subprocess.PIPE, text=True) as server:
            # A server that says nothing ends, and the test with it.
            late = threading.Timer(30, server.kill)
            late.start()
            try:
                self.assertTrue(any("ready to accept connections" in line for line in server.stdout), "it starts")
                ask = lambda words, **variables: run("redis-cli", "-s", socket, *words.split(), env={**os.environ, **variables})
                self.assertIn("NOAUTH", ask("get x").stdout + ask("get x").stderr)
                password = self.made["redis.conf"].split()[1]
                self.assertEqual(ask("ping", REDISCLI_AUTH=password).stdout.strip(), "PONG")
                self.assertEqual(ask("config get save", REDISCLI_AUTH=password).stdout.split("\n")[1], "")
                kind, check = service["healthcheck"]["test"]
                self.assertEqual(kind, "CMD-SHELL")
                self.assertEqual(run("sh", "-c", check.replace("redis-cli", f"redis-cli -s {socket}")).returncode, 0)
                self.assertNotEqual(run("sh", "-c", check.replace("redis-cli", f"redis-cli -s {socket}.none")).returncode, 0)
            finally:
                late.cancel()
                server.terminate()


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
        self.services = self.file["services"]

    def test_each_service_is_bounded(self):
        for name, service in self.services.items():
            self.assertRegex(str(service.get("mem_limit", "")), r"^\$\{[A-Z_]+:-\d+[mg]\}$", name)
            self.assertLessEqual(service.get("pids_limit", 10**9), 1024, name)

    def test_the_balancer_reaches_no_store(self):
        networks = {name: set(service["networks"]) for name, service in self.services.items()}
        self.assertEqual(networks.pop("balancer"), {"front"})
        self.assertEqual([networks.pop(name) for name in ("postgres", "redis")], [{"back"}, {"back"}])
        self.assertEqual(set(map(frozenset, networks.values())), {frozenset({"front", "back"})})
        self.assertEqual(self.file["networks"], {"front": None, "back": {"internal": True}})
        self.assertEqual([name for name, service in self.services.items() if service.get("ports")], ["balancer"])

    def test_secrets_are_files(self):
        for name, service in self.services.items():
            given = service.get("secrets", [])
            for variable, value in service.get("environment", {}).items():
                self.assertNotRegex(str(value), SECRET, name)
                if variable.endswith("_FILE"):
                    self.assertIn(value.removeprefix("/run/secrets/"), given, name)
            self.assertNotRegex(str(service.get("command", "")) + str(service.get("entrypoint", "")), SECRET, name)
        used = {secret for service in self.services.values() for secret in service.get("secrets", [])}
        self.assertEqual(used, set(self.file["secrets"]))
        for name, secret in self.file["secrets"].items():
            self.assertEqual(secret, {"file": f"${{THREADLINE_SECRETS:-./deploy/secrets}}/{name}"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-b", *sys.argv[1:]])
