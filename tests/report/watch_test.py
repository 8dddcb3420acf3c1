"""isobit watch: who may read, and that the page follows the runs."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from cases import MAKE_RUN, PROGRAM, Case
from chromium import FOUND, Browser


class Watch(Case):
    def start(self, *words):
        self.process = subprocess.Popen([PROGRAM, "watch", *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")})
        self.addCleanup(self.stop)
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", self.url)
        self.assertIsNotNone(found, self.url)
        self.port, self.token = int(found[1]), found[2]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(10), 0)
        self.process.stdout.close()

    def get(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def data(self, since):
        answer, body = self.get(f"/{self.token}/data.json?since={since}")
        self.assertEqual(answer.status, 200)
        return json.loads(body)

    def test_only_who_has_the_token_and_comes_to_this_address(self):
        self.make_run()
        self.start()
        answer, body = self.get(f"/{self.token}/")
        self.assertEqual(answer.status, 200)
        self.assertTrue(body.startswith(b"<!doctype html>"))
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        self.assertEqual(answer.headers["Referrer-Policy"], "no-referrer")
        self.assertIn("frame-ancestors 'none'", answer.headers["Content-Security-Policy"])
        self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
        wrong = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        for path, method, host, status in (
                ("/", "GET", None, 404), (f"/{wrong}/", "GET", None, 404), (f"/{self.token}", "GET", None, 404), (f"/{self.token[:-1]}/", "GET", None, 404),
                (f"/{self.token.upper()}x/", "GET", None, 404), (f"/{self.token}/runs", "GET", None, 404), (f"/{self.token}/../../etc/passwd", "GET", None, 404),
                (f"/{self.token}/%2e%2e/", "GET", None, 404), (f"/{self.token}/data.json/", "GET", None, 404),
                (f"/{self.token}/", "POST", None, 405), (f"/{self.token}/", "HEAD", None, 405), (f"/{self.token}/data.json", "PUT", None, 405),
                (f"/{self.token}/", "GET", "evil.example", 403), (f"/{self.token}/", "GET", f"evil.example:{self.port}", 403),
                (f"/{self.token}/", "GET", "127.0.0.1", 403), (f"/{self.token}/", "GET", f"localhost:{self.port}", 200)):
            answer, body = self.get(path, method, host)
            self.assertEqual(answer.status, status, (path, method, host))
            if status != 200:
                self.assertLess(len(body), 200)
                self.assertNotIn(self.token.encode(), body)

    def test_what_is_no_request_is_cut_off(self):
        self.make_run()
        self.start()
        for text in (b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20000 + b"\r\n\r\n",
                     f"GET /{self.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 1000,
                     b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
                client.sendall(text)
                answer = b""
                try:
                    while piece := client.recv(65536):
                        answer += piece
                except ConnectionResetError:
                    pass
            self.assertFalse(answer.startswith(b"HTTP/1.1 200"), text[:40])
        self.assertEqual(self.get(f"/{self.token}/")[0].status, 200)

    def test_slow_clients_do_not_stop_others(self):
        self.make_run()
        self.start()
        idle = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(20)]
        self.assertEqual(self.get(f"/{self.token}/")[0].status, 200)
        for client in idle:
            client.close()

    def test_answers_hold_what_changed(self):
        first = self.make_run("first")
        self.start()
        before = self.data(0)
        self.assertEqual([run["id"] for run in before["runs"]], [first])
        version = before["live"]["version"]
        again = self.data(version)
        self.assertEqual((again["live"]["version"], again["runs"]), (version, [{"id": first, "unchanged": True}]))
        second = self.make_run("second", "interrupted")
        time.sleep(1)
        after = self.data(version)
        self.assertEqual(sorted(run["id"] for run in after["runs"]), sorted([first, second]))
        self.assertGreater(after["live"]["version"], version)
        self.assertEqual([run["id"] for run in after["runs"] if "unchanged" not in run and run["id"] == second], [second])
        shutil.rmtree(self.folder / "runs" / second)
        time.sleep(1)
        self.assertEqual([run["id"] for run in self.data(after["live"]["version"])["runs"]], [first])

    @unittest.skipIf(FOUND is None and "pages" not in os.environ.get("ISOBIT_REQUIRE", "").split(), "Chromium is not installed (scripts/setup --pages)")
    def test_the_page_follows(self):
        # One writer that waits: its run is running while it lives.
        with subprocess.Popen([MAKE_RUN, "runs", "going", "running"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            run = writer.stdout.readline().strip()
            self.start(run)
            browser = Browser()
            self.addCleanup(browser.close)
            tab = browser.open(self.url)
            self.assertIn("The run has done 5 steps and goes on", tab.evaluate("document.body.innerText"))
            with open(self.folder / "runs" / run / "steps.jsonl", "a") as log:
                log.write('{"step":6,"epoch":2,"loss":"3f001700","batch":"' + "a" * 32 + '"}\n')
            tab.wait("document.body.innerText.includes('has done 6 steps')")
            self.assertEqual(tab.errors, [])
            self.assertEqual({url.split("?")[0] for url in tab.requests if not url.startswith("data:")}, {self.url, self.url + "data.json"})
            writer.stdin.close()
        tab.wait("document.body.innerText.includes('interrupted')")


if __name__ == "__main__":
    sys.exit(unittest.main())
