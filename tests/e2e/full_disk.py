"""A disk that is full is named in one sentence, what was there stays as it was, and once there is room the same command goes
on. Usage: full_disk.py path/to/fetch_set path/to/frn [path/to/librecord_syncs.so]

The disk is a small one in memory. Only root may mount one, or a user in a namespace of its own; who is neither sees this
test skipped (exit code 77)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import download
from download import ARCHIVE, DATA, Server, file_entry, make_archive

SKIPPED = 77


def mount(folder: Path, size: str, *options: str) -> bool:
    given = ",".join([f"size={size}", *options])
    return subprocess.run(["mount", "-t", "tmpfs", "-o", given, "frn-test", str(folder)], capture_output=True).returncode == 0


class FullDisk(download.Case):
    def setUp(self):
        super().setUp()
        self.parent.mkdir()
        self.assertTrue(mount(self.parent, "200k"))

    def tearDown(self):
        subprocess.run(["umount", str(self.parent)], check=True)
        super().tearDown()

    def make_room(self):
        self.assertTrue(mount(self.parent, "4m", "remount"))

    def test_a_transfer_stops_with_a_sentence_and_goes_on_from_there(self):
        with Server(ARCHIVE) as server:
            self.assert_fails(self.fetch(server.address), "cannot write: No space left on device; once that is solved")
            self.assertEqual(self.left(), ["set.tar.gz.part"])
            came = (self.parent / "set.tar.gz.part").stat().st_size
            self.make_room()
            self.assert_whole(self.fetch(server.address))
            self.assertEqual(server.requests, [None, f"bytes={came}-"])

    def test_an_archive_that_has_no_room_to_be_unpacked_stays(self):
        packed = make_archive([file_entry("set/data.bin", bytes(len(DATA)))])
        with Server(packed) as server:
            self.assert_fails(self.fetch(server.address, packed), "data.bin: No space left on device; once that is solved")
            self.assertEqual(self.left(), ["set.tar.gz"])
            self.make_room()
            done = self.fetch(server.address, packed)
            self.assertEqual((done.returncode, self.left()), (0, ["set"]), done.stderr)
            self.assertEqual(len(server.requests), 1, "it was there already")

    def test_plain_files_need_no_room_for_a_copy(self):
        images = DATA[:150_000]
        with Server(images) as server:
            done = self.fetch(server.address, images, "images.gz")
            self.assertEqual((done.returncode, self.left()), (0, ["set"]), done.stderr)

    def test_where_files_cannot_be_linked_their_copy_is_whole_or_they_stay(self):
        if download.RECORD_SYNCS is None:
            self.skipTest("no library that refuses links was given")
        images = DATA[:150_000]
        without_links = {**os.environ, "LD_PRELOAD": str(download.RECORD_SYNCS), "FRN_NO_LINKS": "1"}
        with Server(images) as server:
            done = self.fetch(server.address, images, "images.gz", environment=without_links)
            self.assert_fails(done, "images.gz: cannot write: No space left on device")
            self.assertEqual(self.left(), ["images.gz"])
            self.make_room()
            done = self.fetch(server.address, images, "images.gz", environment=without_links)
            self.assertEqual((done.returncode, self.left()), (0, ["set"]), done.stderr)
            self.assertEqual((self.parent / "set" / "images.gz").read_bytes(), images)
            self.assertEqual(len(server.requests), 1)

    def test_a_report_is_not_written_in_part(self):
        run = self.parent / "run"
        run.mkdir()
        lines = [{"event": "train", "step": step, "loss": 1 / step, "lr": 0.1} for step in range(1, 100)]
        (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (run / "report.html").write_text("old")
        (self.parent / "rest").write_bytes(bytes(shutil.disk_usage(self.parent).free - 4096))
        before = sorted(path.name for path in run.iterdir())
        done = subprocess.run([download.FRN, "report", run], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"^frn: \[report\] .*: cannot write: No space left on device\n$")
        self.assertEqual(sorted(path.name for path in run.iterdir()), before)
        self.assertEqual((run / "report.html").read_text(), "old")
        self.make_room()
        self.assertEqual(subprocess.run([download.FRN, "report", run], capture_output=True).returncode, 0)


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if not mount(Path(folder), "64k"):
            return False
        subprocess.run(["umount", folder], check=True)
        return True


if __name__ == "__main__":
    download.PROGRAM, download.FRN = Path(sys.argv[1]), Path(sys.argv[2])
    download.RECORD_SYNCS = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    if not may_mount():
        if "FRN_IN_NAMESPACE" not in os.environ and shutil.which("unshare"):
            command = ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv]
            sys.exit(subprocess.run(command, env={**os.environ, "FRN_IN_NAMESPACE": "1"}).returncode)
        print("skipped: this user may not mount a small disk")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
