"""Makes the archives of this folder with Python's tarfile and gzip, and with webdataset's ShardWriter.

    python make.py        needs webdataset and zstandard
"""
import gzip, io, tarfile
import webdataset, zstandard

USTAR, GNU, PAX = tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT


def tar(items, fmt=PAX):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=fmt) as t:
        for name, data in items:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return b.getvalue()


def write(name, data):
    with open(name, "wb") as f:
        f.write(data)


def pairs(first, n):
    for i in range(first, first + n):
        yield f"{i:06d}.bin", bytes([i, i + 1, i + 2])
        yield f"{i:06d}.cls", str(i % 10).encode()


long = "d/" * 60 + "x" * 120
write("long_gnu.tar", tar([(long + ".bin", b"abc"), (long + ".cls", b"3")], GNU))
write("long_pax.tar", tar([(long + "ü.bin", b"abc"), (long + "ü.cls", b"3")]))
write("trunc.tar", tar([("a.bin", b"x" * 900), ("a.cls", b"1")], USTAR)[:700])
write("dots.tar", tar([("a.b/c.d.seg.bin", b"seg"), ("a.b/c.d.bin", b"abc"), ("a.b/c.cls", b"1"), ("__MACOSX/._x.bin", b"x"), (".hidden", b"x")]))
write("split.tar", tar([("1.bin", b"abc"), ("1.cls", b"1"), ("2.bin", b"abc"), ("2.cls", b"2"), ("1.txt", b"1")]))
write("dup.tar", tar([("1.bin", b"abc"), ("1.bin", b"abd"), ("1.cls", b"1")]))
write("members.tar.gz", gzip.compress(tar(pairs(0, 2)), mtime=0) + gzip.compress(tar(pairs(2, 2)), mtime=0))
write("padded.tar.gz", gzip.compress(tar(pairs(0, 2)), mtime=0) + b"\0" * 512)
c = zstandard.ZstdCompressor(write_checksum=True)
whole = tar(pairs(0, 4))
write("frames.tar.zst", b"".join(c.compress(whole[i : i + 700]) for i in range(0, len(whole), 700)))

with open("writer.tar", "wb") as f, webdataset.TarWriter(f, mtime=0) as sink:
    for i in range(4):
        sink.write({"__key__": f"{i:06d}", "bin": bytes([i, i + 1, i + 2]), "cls": i, "json": {"a": [i / 2], "n": i}})
