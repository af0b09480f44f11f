#!/usr/bin/env python3
"""Data sets come from a server whole, or not at all with a sentence that says why: servers that break off, ignore ranges,
refuse or lie, archives that are damaged or hostile, a full disk.

    python tests/e2e/download.py path/to/fetch_set path/to/frn [path/to/librecord_syncs.so]

Needs nothing but Python; the servers are on this machine. With the library it also looks at the order in which files are
synced to the disk.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROGRAM, FRN, RECORD_SYNCS = Path(), Path(), None
DATA = os.urandom(300_000)


def make_archive(entries: list[tuple[tarfile.TarInfo, bytes]], compress=gzip.compress, kind=tarfile.DEFAULT_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return compress(buffer.getvalue())


def file_entry(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def special_entry(name: str, kind: bytes, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def folder_entry(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info, b""


ARCHIVE = make_archive([folder_entry("set"), file_entry("set/data.bin", DATA), file_entry("set/readme", b"text")])


class Server:
    """Serves one file. `cut` is after how many bytes each of the first answers breaks off."""

    def __init__(self, content: bytes, *, ranges=True, cut=(), statuses=(), redirect=""):
        self.content, self.ranges, self.cut, self.statuses = content, ranges, list(cut), list(statuses)
        self.redirect = redirect  # to a path that begins so
        self.requests: list[str | None] = []  # their ranges
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=[0.01], daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.redirect and not request.path.startswith(self.redirect):
            request.send_response(302)
            request.send_header("Location", self.redirect + request.path)
            request.end_headers()
            return
        asked = request.headers.get("Range")
        self.requests.append(asked)
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            request.send_error(status)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if start >= len(self.content):
            request.send_error(416)
            return
        body = self.content[start:]
        request.send_response(206 if asked and self.ranges else 200)
        if asked and self.ranges:
            end = len(self.content)
            request.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        try:
            request.wfile.write(body[: self.cut.pop(0)] if self.cut else body)
        except ConnectionError:  # the program has seen enough
            pass
        request.close_connection = True

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_) -> None:
        self.http.shutdown()
        self.http.server_close()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="frn's download ")
        self.parent = Path(self.folder.name) / "sub folder"

    def tearDown(self):
        self.folder.cleanup()

    def fetch(self, server: str, expected: bytes = ARCHIVE, name="set.tar.gz", limit: int | None = None, more=(), environment=None):
        def few_bytes():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        digest = hashlib.sha256(expected).hexdigest()
        ready = "data.bin" if name.endswith(".tar.gz") else name
        size = len(DATA) if name.endswith(".tar.gz") else len(expected)
        command = [PROGRAM, server, self.parent, name, len(expected), digest, "set", ready, size, *more]
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, preexec_fn=few_bytes if limit else None, env=environment
        )

    def left(self) -> list[str]:
        return sorted(p.name for p in self.parent.iterdir()) if self.parent.exists() else []

    def assert_whole(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.parent / "set" / "data.bin").read_bytes(), DATA)
        self.assertEqual(self.left(), ["set"], "nothing else may be left")

    def assert_fails(self, done, words: str):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("[data] ", done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, "one sentence: " + done.stderr)
        self.assertNotIn("set", self.left())


class Download(Case):
    def test_a_set_is_fetched_and_unpacked(self):
        with Server(ARCHIVE) as server:
            self.assert_whole(self.fetch(server.address))
            self.assertEqual((self.parent / "set" / "readme").read_bytes(), b"text")

    def test_a_set_that_is_there_is_not_fetched_again(self):
        with Server(ARCHIVE) as server:
            self.fetch(server.address)
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(len(server.requests), 1)

    def test_plain_files_are_put_into_their_folder(self):
        with Server(DATA) as server:
            done = self.fetch(server.address, DATA, "images.gz")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual((self.parent / "set" / "images.gz").read_bytes(), DATA)
            self.assertEqual(self.left(), ["set"])

    def test_a_broken_transfer_goes_on_where_it_stopped(self):
        with Server(ARCHIVE, cut=[100_000, 50_000]) as server:
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(server.requests, [None, "bytes=100000-", "bytes=150000-"])

    def test_a_later_call_goes_on_where_an_earlier_one_stopped(self):
        with Server(ARCHIVE, cut=[100_000, 0, 0, 0]) as server:
            self.assert_fails(self.fetch(server.address), "stopped at 100000 of")
            self.assertEqual(self.left(), ["set.tar.gz.part"])
        with Server(ARCHIVE) as server:
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(server.requests, ["bytes=100000-"])

    def test_a_server_that_ignores_ranges_starts_anew(self):
        with Server(ARCHIVE, ranges=False, cut=[100_000]) as server:
            self.assert_whole(self.fetch(server.address))

    def test_a_part_of_another_file_is_thrown_away(self):
        self.parent.mkdir()
        (self.parent / "set.tar.gz.part").write_bytes(b"x" * 1000)
        with Server(ARCHIVE) as server:
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(server.requests, ["bytes=1000-", None])

    def test_a_part_that_is_too_long_is_thrown_away(self):
        self.parent.mkdir()
        (self.parent / "set.tar.gz.part").write_bytes(b"x" * (len(ARCHIVE) + 1))
        with Server(ARCHIVE) as server:
            self.assert_whole(self.fetch(server.address))

    def test_a_whole_part_is_not_fetched_again(self):
        self.parent.mkdir()
        (self.parent / "set.tar.gz.part").write_bytes(ARCHIVE)
        with Server(ARCHIVE) as server:
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(server.requests, [])

    def test_another_file_is_refused_and_removed(self):
        other = bytes(len(ARCHIVE))
        with Server(other) as server:
            self.assert_fails(self.fetch(server.address), "another file than the owner published")
            self.assertEqual(self.left(), [])

    def test_a_longer_file_is_refused_before_it_fills_the_disk(self):
        with Server(ARCHIVE + bytes(10_000_000)) as server:
            self.assert_fails(self.fetch(server.address), "sends more than the")

    def test_a_shorter_file_says_where_it_ends(self):
        with Server(ARCHIVE[:1000]) as server:
            self.assert_fails(self.fetch(server.address), "stopped at 1000 of")

    def test_a_refusal_names_the_answer(self):
        with Server(ARCHIVE, statuses=[404]) as server:
            self.assert_fails(self.fetch(server.address), "the server answers 404; give another server with --url")
            self.assertEqual(len(server.requests), 1)

    def test_a_server_in_trouble_is_asked_again(self):
        with Server(ARCHIVE, statuses=[503, 500]) as server:
            self.assert_whole(self.fetch(server.address))

    def test_a_redirection_is_followed_but_not_to_a_local_file(self):
        with Server(ARCHIVE, redirect="/moved") as server:
            self.assert_whole(self.fetch(server.address))
        # The very set, where a program of this user could read it.
        (Path(self.folder.name) / "set.tar.gz").write_bytes(ARCHIVE)
        local = f"file://{self.folder.name.replace(' ', '%20')}"
        self.parent = Path(self.folder.name) / "second"
        with Server(ARCHIVE, redirect=local) as server:
            for address in (server.address, local):
                with self.subTest(address):
                    self.assert_fails(self.fetch(address), 'Protocol "file"')
                    self.assertEqual([(p.name, p.stat().st_size) for p in self.parent.iterdir()], [("set.tar.gz.part", 0)])

    def test_no_server_is_an_error_with_the_reason(self):
        with Server(ARCHIVE) as server:
            address = server.address
        self.assert_fails(self.fetch(address), "stopped at 0 of")

    def test_a_full_disk_is_named_and_the_part_stays(self):
        with Server(ARCHIVE) as server:
            self.assert_fails(self.fetch(server.address, limit=100_000), "cannot write: File too large")
            self.assertEqual(self.left(), ["set.tar.gz.part"])
            self.assert_whole(self.fetch(server.address))

    def test_who_watches_may_throw_and_the_part_stays(self):
        with Server(ARCHIVE) as server:
            done = self.fetch(server.address, more=[100_000])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"^\[fetch_set\] had enough after \d+ bytes\n$")
            self.assertEqual(self.left(), ["set.tar.gz.part"])
            self.assertGreater((self.parent / "set.tar.gz.part").stat().st_size, 100_000)
            self.assert_whole(self.fetch(server.address))

    def test_a_set_is_on_the_disk_before_its_archive_is_removed(self):
        if RECORD_SYNCS is None:
            self.skipTest("no library that records syncs was given")
        for name, content, files in (("set.tar.gz", ARCHIVE, ["data.bin", "readme"]), ("images.gz", DATA, ["images.gz"])):
            with self.subTest(name), Server(content) as server:
                self.parent = Path(self.folder.name) / f"for {name}"
                record = Path(self.folder.name) / f"record of {name}"
                watched = {**os.environ, "LD_PRELOAD": str(RECORD_SYNCS), "FRN_SYNC_RECORD": str(record)}
                self.assertEqual(self.fetch(server.address, content, name, environment=watched).returncode, 0)
                lines = [line.split(" ", 1) for line in record.read_text().splitlines()]
                at = lambda what, ending: next(i for i, (w, path) in enumerate(lines) if w == what and path.endswith(ending))  # noqa: B023, E731
                fetched, removed = at("rename", f"/{name}"), at("remove", f"/{self.parent.name}/{name}")
                in_place = at("rename", f"/{self.parent.name}/set")
                self.assertLess(at("sync", f"/{name}.part"), fetched)
                for file in [f".partial/set/{file}" for file in files] + [".partial/set"]:
                    self.assertTrue(fetched < at("sync", file) < in_place, file)
                last_sync = max(i for i, (w, path) in enumerate(lines) if w == "sync" and path == str(self.parent))
                self.assertTrue(in_place < last_sync < removed, lines)

    def test_a_disk_that_fills_while_unpacking_leaves_the_archive_alone(self):
        packed = make_archive([file_entry("set/data.bin", bytes(len(DATA)))])
        with Server(packed) as server:
            self.assert_fails(self.fetch(server.address, packed, limit=100_000), "cannot write")
            self.assertEqual(self.left(), ["set.tar.gz"])

    def test_another_file_of_the_archives_name_is_not_touched(self):
        self.parent.mkdir()
        (self.parent / "set.tar.gz").write_bytes(b"mine")
        with Server(ARCHIVE) as server:
            self.assert_fails(self.fetch(server.address), "is there already with other contents")
        self.assertEqual((self.parent / "set.tar.gz").read_bytes(), b"mine")

    def test_a_folder_that_is_not_the_set_is_not_touched(self):
        (self.parent / "set").mkdir(parents=True)
        done = self.fetch("http://127.0.0.1:9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("data.bin is missing or has another length; move it away", done.stderr)

    def test_where_no_folder_can_be_made_says_so(self):
        self.parent.write_bytes(b"")
        done = self.fetch("http://127.0.0.1:9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("[data]", done.stderr)


class Archives(Case):
    """Each archive here is what was published: its checksum is right, its inside is not."""

    def refuse(self, archive: bytes, words: str):
        with Server(archive) as server:
            self.assert_fails(self.fetch(server.address, archive), words)
        self.assertEqual(self.left(), ["set.tar.gz"])
        self.assertEqual(sorted(p.name for p in Path(self.folder.name).iterdir()), ["sub folder"], "it wrote outside")

    def test_names_that_lead_out_are_refused(self):
        for name in ["../escaped", "set/../../escaped", f"{self.folder.name}/escaped", "..", "set/.."]:
            with self.subTest(name):
                self.refuse(make_archive([file_entry(name, b"x")]), "leads out of the folder")
                (self.parent / "set.tar.gz").unlink()

    def test_long_names_are_read_and_may_not_lead_out_either(self):
        long = "set/" + "a" * 200
        for kind in [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]:
            with self.subTest(kind):
                self.refuse(make_archive([file_entry(f"{long}/../../../escaped", b"x")], kind=kind), "leads out of the folder")
                (self.parent / "set.tar.gz").unlink()
                archive = make_archive([file_entry("set/data.bin", DATA), file_entry(long, b"x")], kind=kind)
                with Server(archive) as server:
                    self.assertEqual(self.fetch(server.address, archive).returncode, 0)
                self.assertEqual((self.parent / long).read_bytes(), b"x")
                shutil.rmtree(self.parent / "set")

    def test_a_sparse_file_is_as_long_as_it_says_or_refused(self):
        info, _ = file_entry("set/data.bin", b"")
        info.pax_headers = {"GNU.sparse.map": f"{2**50},1", "GNU.sparse.size": "2", "GNU.sparse.numblocks": "1"}
        info.size = 1
        self.refuse(make_archive([(info, b"x")], kind=tarfile.PAX_FORMAT), "is not what its header says")

    def test_links_and_devices_are_refused(self):
        for kind in [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]:
            with self.subTest(kind):
                entries = [special_entry("set", kind, self.folder.name), file_entry("set/escaped", b"x")]
                self.refuse(make_archive(entries), "neither a file nor a folder")
                (self.parent / "set.tar.gz").unlink()

    def test_damage_is_seen(self):
        whole = bytearray(ARCHIVE)
        whole[len(whole) // 2] ^= 255
        self.refuse(bytes(whole), "fetch it again")

    def test_a_cut_archive_is_seen_wherever_it_is_cut(self):
        tar = gzip.decompress(ARCHIVE)
        cut = [
            ("before the checksum's last byte", ARCHIVE[:-1], "it is damaged or cut off"),
            ("in the middle", ARCHIVE[:200_000], "it is damaged or cut off"),
            ("inside a file", gzip.compress(tar[:100_000]), "it ends too early; fetch it again"),
            ("inside a header", gzip.compress(tar[:600]), "it ends too early; fetch it again"),
            ("between two members", gzip.compress(tar[:512]), "it ends too early; fetch it again"),
            ("in the first two bytes", b"\x1f", "it must be a .tar.gz but is not gzipped"),
        ]
        for where, archive, words in cut:
            with self.subTest(where):
                self.refuse(archive, words)
                (self.parent / "set.tar.gz").unlink()

    def test_what_is_no_archive_is_refused(self):
        self.refuse(b"<html>" * 1000, "it must be a .tar.gz but is not gzipped")
        (self.parent / "set.tar.gz").unlink()
        self.refuse(gzip.compress(b"no tar" * 1000), "it is not a tar archive")

    def test_a_bomb_is_refused(self):
        self.refuse(make_archive([file_entry("set/data.bin", bytes(5_000_000))]), "larger than the data set")

    def test_an_archive_without_the_set_is_refused(self):
        self.refuse(make_archive([file_entry("set/other.bin", b"x")]), "holds no data.bin of the right length")


class Program(unittest.TestCase):
    """frn data get itself: of a real set nothing but failures can be had without its server."""

    def run_frn(self, *arguments: str):
        return subprocess.run([str(FRN), "data", *arguments], capture_output=True, text=True)

    def test_another_file_from_another_server_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, Server(b"x" * 170052171) as server:
            done = self.run_frn("get", "cifar10", folder, "--url", server.address)
            self.assertEqual(done.returncode, 1)
            self.assertIn("c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", done.stderr)
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_missing_file_is_named(self):
        with tempfile.TemporaryDirectory() as folder, Server(b"", statuses=[404]) as server:
            done = self.run_frn("get", "fashion-mnist", folder, "--url", server.address)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{server.address}/train-images-idx3-ubyte.gz: the server answers 404", done.stderr)


if __name__ == "__main__":
    PROGRAM = Path(sys.argv[1])
    FRN = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    RECORD_SYNCS = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    if not FRN.name:
        del Program
    unittest.main(argv=sys.argv[:1])
