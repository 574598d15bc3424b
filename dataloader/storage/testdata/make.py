"""Writes the archives of this folder with Python's zipfile: python3 make.py."""
import io
import zipfile

DATE = (2026, 11, 29, 14, 30, 58)


def write(path, method, large, prefix=b""):
    out = io.BytesIO()
    out.write(prefix)
    with zipfile.ZipFile(out, "w", method, allowZip64=True) as z:
        for name, data in [("a.txt", b"first\n"), ("b/é.bin", bytes(range(256)) * 8), ("b/empty", b"")]:
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = method
            with z.open(info, "w", force_zip64=large) as f:
                f.write(data)
        z.comment = b"a comment with PK\x05\x06 in it"
    with open(path, "wb") as f:
        f.write(out.getvalue())


write("stored.zip", zipfile.ZIP_STORED, False)
write("large.zip", zipfile.ZIP_STORED, True)
write("deflated.zip", zipfile.ZIP_DEFLATED, True)
write("prefixed.zip", zipfile.ZIP_STORED, False, b"#!/bin/sh\nexit 0\n")
write("lzma.zip", zipfile.ZIP_LZMA, False)
