"""Loads one kind of data with other libraries, and prints samples a second and memory as JSON."""

import argparse
import glob
import io
import json
import os
import time
import warnings

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="This DataLoader will create")


class Small(Dataset):
    """Images in memory, moved and flipped by hand, one by one."""

    def __init__(self, folder):
        self.x = np.load(os.path.join(folder, "small.npy"))
        self.rng = None

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        padded = np.zeros((3, 40, 40), np.uint8)
        padded[:, 4:36, 4:36] = self.x[k]
        dy, dx, flip = self.rng.integers(0, 9), self.rng.integers(0, 9), self.rng.integers(0, 2)
        crop = padded[:, dy : dy + 32, dx : dx + 32]
        return torch.from_numpy((crop[:, :, ::-1] if flip else crop).copy())


class SmallBatches(Small):
    """The same, a batch at a time."""

    def __getitems__(self, batch):
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        n = len(batch)
        padded = np.zeros((n, 3, 40, 40), np.uint8)
        padded[:, :, 4:36, 4:36] = self.x[batch]
        out = np.empty((n, 3, 32, 32), np.uint8)
        dy, dx, flip = self.rng.integers(0, 9, n), self.rng.integers(0, 9, n), self.rng.integers(0, 2, n)
        for i in range(n):
            crop = padded[i, :, dy[i] : dy[i] + 32, dx[i] : dx[i] + 32]
            out[i] = crop[:, :, ::-1] if flip[i] else crop
        return out


def stacked(batch):
    return torch.from_numpy(batch)


class Vision(Dataset):
    """Images in memory, moved and flipped by torchvision."""

    def __init__(self, folder):
        from torchvision.transforms import v2

        self.x = torch.from_numpy(np.load(os.path.join(folder, "small.npy")))
        self.t = v2.Compose([v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.t(self.x[i])


def augment():
    from torchvision.transforms import v2

    return v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])


def of_pillow(t, image):
    return torch.from_numpy(np.asarray(t(image.convert("RGB"))).transpose(2, 0, 1).copy())


class Pillow(Dataset):
    """JPEG files, by Pillow."""

    def __init__(self, folder):
        self.names, self.t = sorted(glob.glob(os.path.join(folder, "photos/*/*.jpg"))), augment()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        from PIL import Image

        with Image.open(self.names[i]) as image:
            return of_pillow(self.t, image)


class Turbo(Pillow):
    """JPEG files, by torchvision with libturbojpeg."""

    def __getitem__(self, i):
        from torchvision.io import ImageReadMode, decode_image, read_file

        return self.t(decode_image(read_file(self.names[i]), ImageReadMode.RGB))


class Parquet(Dataset):
    """Images in Parquet, by datasets."""

    def __init__(self, folder):
        import datasets

        datasets.disable_progress_bars()
        cache = os.path.join(folder, "cache")
        self.d = datasets.load_dataset("parquet", data_files=os.path.join(folder, "photos.parquet"), split="train", cache_dir=cache)
        self.t = augment()

    def __len__(self):
        return len(self.d)

    def __getitem__(self, i):
        return of_pillow(self.t, self.d[i]["image"])


def tar(folder):
    import webdataset

    t = augment()
    names = sorted(glob.glob(os.path.join(folder, "photos-*.tar")))
    d = webdataset.WebDataset(names, shardshuffle=len(names), empty_check=False, seed=1).shuffle(500).decode("pil")
    return d.to_tuple("jpg").map(lambda s: of_pillow(t, s[0]))


class Tokens(Dataset):
    def __init__(self, folder):
        self.path, self.length, self.batch = os.path.join(folder, "tokens.bin"), 1024, 12

    def run(self):
        """The loop of nanoGPT's get_batch (github.com/karpathy/nanoGPT), written anew: maps the file for each batch."""
        while True:
            data = np.memmap(self.path, dtype=np.uint16, mode="r")
            at = torch.randint(len(data) - self.length, (self.batch,))
            x = torch.stack([torch.from_numpy(data[i : i + self.length].astype(np.int64)) for i in at])
            y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + self.length].astype(np.int64)) for i in at])
            yield len(x), x, y


def table(folder):
    """Reads the whole file with pyarrow's threads."""
    import pyarrow
    from pyarrow import csv

    pyarrow.set_cpu_count(os.cpu_count())
    while True:
        t = csv.read_csv(os.path.join(folder, "table.csv"))
        yield t.num_rows, [c.to_numpy() for c in t.columns]


def loader(a):
    """Returns batches without end, each with its number of samples first."""
    if a.row == "tokens":
        yield from Tokens(a.dir).run()
    if a.row == "csv":
        yield from table(a.dir)
    batch = 128 if a.row == "small" else 32
    more = dict(batch_size=batch, num_workers=a.workers, persistent_workers=a.workers > 0)
    if a.row == "tar":
        d = DataLoader(tar(a.dir), **more)
    else:
        kinds = {"numpy": Small, "numpy, by batch": SmallBatches, "torchvision": Vision, "Pillow": Pillow, "torchvision.io": Turbo, "datasets": Parquet}
        if a.library == "numpy, by batch":
            more["collate_fn"] = stacked
        d = DataLoader(kinds[a.library](a.dir), shuffle=True, **more)
    while True:
        for x in d:
            x = x[0] if isinstance(x, list) else x
            yield len(x), x


def memory():
    """Returns the bytes that this process and its workers hold, what is shared counted once."""
    p = psutil.Process()
    total = 0
    for q in [p] + p.children(recursive=True):
        try:
            total += q.memory_full_info().pss
        except psutil.NoSuchProcess:
            pass
    return total


def make_parquet(folder):
    import datasets

    datasets.disable_progress_bars()
    names = sorted(glob.glob(os.path.join(folder, "photos/*/*.jpg")))
    images = [{"bytes": open(n, "rb").read(), "path": os.path.basename(n)} for n in names]
    labels = [int(n.split(os.sep)[-2]) for n in names]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    d = datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)
    d.to_parquet(os.path.join(folder, "photos.parquet"), batch_size=100)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-make", action="store_true", help="write the Parquet file")
    p.add_argument("-row")
    p.add_argument("-library")
    p.add_argument("-dir")
    p.add_argument("-workers", type=int)
    p.add_argument("-seconds", type=float)
    a = p.parse_args()
    if a.make:
        make_parquet(a.dir)
        return
    batches = loader(a)
    for _ in range(1 if a.row == "csv" else 8):  # workers start, caches fill
        next(batches)
    most, samples, begun = 0, 0, time.perf_counter()
    while time.perf_counter() - begun < a.seconds:
        samples += next(batches)[0]
        if samples % 8 == 0 and most == 0:
            paused = time.perf_counter()
            most = memory()
            begun += time.perf_counter() - paused
    rate = samples / (time.perf_counter() - begun)
    print(json.dumps({"rate": rate, "memory": max(most, memory())}), flush=True)
    os._exit(0)  # workers may be in the middle of a batch


main()
