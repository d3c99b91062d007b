#!/usr/bin/env python3
"""Unpacks the only image of an OCI archive into a new folder, and checks it: every blob has the digest and size by
which it is named, and every layer the digest in the configuration.

    scripts/unpack-image.py ARCHIVE FOLDER"""

import gzip
import hashlib
import io
import json
import sys
import tarfile


def blob(archive: tarfile.TarFile, descriptor: dict) -> bytes:
    """Returns the content of a blob after comparing digest and size."""
    algorithm, digest = descriptor["digest"].split(":")
    assert algorithm == "sha256", algorithm
    content = archive.extractfile(f"blobs/sha256/{digest}").read()
    assert hashlib.sha256(content).hexdigest() == digest, f"{digest}: another digest"
    assert len(content) == descriptor["size"], f"{digest}: another size"
    return content


def main() -> None:
    path, folder = sys.argv[1:]
    with tarfile.open(path) as archive:
        layout = json.load(archive.extractfile("oci-layout"))
        assert layout["imageLayoutVersion"] == "1.0.0", layout
        [entry] = json.load(archive.extractfile("index.json"))["manifests"]
        manifest = json.loads(blob(archive, entry))
        config = json.loads(blob(archive, manifest["config"]))
        assert (config["os"], config["architecture"]) == ("linux", "amd64"), config
        assert config["config"]["Entrypoint"] == ["/usr/bin/lineside"], config
        assert config["config"]["User"] == "7700:7700", config
        named = {entry["digest"], manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])}
        stored = {"sha256:" + name.split("/")[-1] for name in archive.getnames() if name.startswith("blobs/sha256/")}
        assert named == stored, f"blobs that no manifest names: {stored - named}"
        for layer, expected in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            content = blob(archive, layer)
            if layer["mediaType"].endswith("gzip"):
                content = gzip.decompress(content)
            assert "sha256:" + hashlib.sha256(content).hexdigest() == expected, f"{expected}: another layer"
            with tarfile.open(fileobj=io.BytesIO(content)) as files:
                members = files.getmembers()
                [data] = [member for member in members if member.name.strip("./") == "var/lib/lineside"]
                assert (data.uid, data.gid) == (7700, 7700), "the folder for data"
                assert len({member.mtime for member in members}) == 1, "files have different times"
                files.extractall(folder, members, filter="tar")


main()
