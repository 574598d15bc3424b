"""Writes the Arrow files of the tests: needs numpy, pyarrow, Pillow and datasets. Run it in this folder.

expect.json has what the tests must read: for each file the values of each column, row by row."""
import datetime, decimal, io, json, os, shutil, tempfile
import numpy as np, pyarrow as pa, pyarrow.feather as feather, pyarrow.ipc as ipc

rng = np.random.default_rng(8)
N = 70
expect = {}


def write(name, table, batch=32, stream=False, **k):
    opt = ipc.IpcWriteOptions(**k)
    with (ipc.new_stream if stream else ipc.new_file)(name, table.schema, options=opt) as w:
        w.write_table(table, max_chunksize=batch)


def note(name, table):
    expect[name] = {c: table[c].to_pylist() for c in table.column_names}


numbers = pa.table({
    'f32': rng.standard_normal(N).astype('f4'), 'f64': rng.standard_normal(N), 'i8': rng.integers(-128, 128, N).astype('i1'),
    'i16': rng.integers(-2**15, 2**15, N).astype('i2'), 'i32': rng.integers(-2**31, 2**31, N).astype('i4'),
    'i64': rng.integers(-2**63, 2**63, N), 'u8': rng.integers(0, 256, N).astype('u1'), 'u16': rng.integers(0, 2**16, N).astype('u2'),
    'u32': rng.integers(0, 2**32, N).astype('u4'), 'flag': rng.integers(0, 2, N).astype(bool), 'h': rng.standard_normal(N).astype('f2'),
    'coded': pa.array(rng.integers(0, 3, N).astype('i2')).dictionary_encode(),
})
note('numbers', numbers)
write('numbers.arrow', numbers)
write('numbers-stream.arrows', numbers, stream=True)
write('numbers-lz4.arrow', numbers, compression='lz4')
write('numbers-zstd.arrow', numbers, compression='zstd')
write('numbers-zstd.arrows', numbers, stream=True, compression='zstd')
feather.write_feather(numbers, 'numbers-lz4.feather', compression='lz4', chunksize=40)

rows = rng.integers(0, 100, (N, 2, 3)).astype('f4')
lists = pa.table({
    'l': pa.array(rows.reshape(N, 6).tolist(), pa.list_(pa.float32())), 'large': pa.array(rows.reshape(N, 6).tolist(), pa.large_list(pa.float64())),
    'fixed': pa.array(rows.reshape(N, 6).tolist(), pa.list_(pa.int16(), 6)), 'nested': pa.array(rows.tolist(), pa.list_(pa.list_(pa.float64(), 3))),
    'bits': pa.array((rows.reshape(N, 6) > 50).tolist(), pa.list_(pa.bool_(), 6)),
})
note('lists', lists)
write('lists.arrow', lists)
write('lists-zstd.arrow', lists, compression='zstd')
write('ragged.arrow', pa.table({'l': pa.array([[1, 2], [3], [4, 5]], pa.list_(pa.int32()))}))
write('hollow.arrow', pa.table({'l': pa.array([[1, 2], [], [4, 5]], pa.list_(pa.int32()))}))
holes = pa.table({'l': pa.array([[1, 2], None, [None, 5]], pa.list_(pa.int32())), 'fixed': pa.array([[1, 2], None, [None, 5]], pa.list_(pa.int32(), 2)),
                  'n': pa.array([1.5, None, 2.5]), 'flag': pa.array([None, True, False]), 'coded': pa.array([None, 7, 8]).dictionary_encode()})
note('holes', holes)
write('holes.arrow', holes)

days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(-20000, 20000, 30)]
stamps = [datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=int(x)) for x in rng.integers(0, 2**40, 30)]
dec = [decimal.Decimal(int(x)) / 100 for x in rng.integers(-10**7, 10**7, 30)]
words = [['cat', 'dog', 'a text of more than twelve bytes'][i % 3] for i in range(30)]
rules = pa.table({
    'day': pa.array(days), 'ms64': pa.array(days, pa.date64()), 'us': pa.array(stamps, pa.timestamp('us', 'UTC')), 'ns': pa.array(stamps, pa.timestamp('ns')),
    'time': pa.array([s.time() for s in stamps], pa.time64('us')), 'dec': pa.array(dec, pa.decimal128(9, 2)), 'big': pa.array([d * 10**20 for d in dec], pa.decimal256(50, 2)),
    'label': pa.array(words), 'large': pa.array(words, pa.large_string()), 'view': pa.array(words, pa.string_view()), 'coded': pa.array(words).dictionary_encode(),
    'id': pa.array([bytes([i] * 5) for i in range(30)], pa.binary(5)), 's': pa.array([{'a': i, 'b': {'c': i * 2}} for i in range(30)]),
})
write('rules.arrow', rules, batch=16)
epoch = datetime.datetime(1970, 1, 1)
us = [(s - epoch) // datetime.timedelta(microseconds=1) for s in stamps]
index = [i % 3 for i in range(30)]
expect['rules'] = {
    'day': [(d - datetime.date(1970, 1, 1)).days for d in days], 'ms64': [(d - datetime.date(1970, 1, 1)).days * 86400000 for d in days],
    'us': us, 'ns': [u * 1000 for u in us], 'time': [u % 86400000000 for u in us], 'dec': [float(d) for d in dec], 'big': [float(d * 10**20) for d in dec],
    'label': index, 'large': index, 'view': index, 'coded': index, 'id': [[i] * 5 for i in range(30)],
    's.a': list(range(30)), 's.b.c': [i * 2 for i in range(30)],
}

# Dictionaries that grow and change between batches: allowed in a stream.
a = pa.record_batch({'x': pa.array(['cat', 'dog']).dictionary_encode()})
b = pa.record_batch({'x': pa.array(['cat', 'dog', 'ox', 'ox']).dictionary_encode()})
c = pa.record_batch({'x': pa.array(['ox', 'cat']).dictionary_encode()})
with ipc.new_stream('growing.arrows', a.schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as w:
    for batch in (a, b, c):
        w.write_batch(batch)

# Odd files.
write('empty.arrow', pa.table({'x': pa.array([], pa.float32())}))
write('nocolumns.arrow', pa.table({}))
with ipc.new_file('gaps.arrow', pa.schema([('x', pa.int32())])) as w:
    for part in ([1, 2], [], [3], []):
        w.write_batch(pa.record_batch({'x': pa.array(part, pa.int32())}))
write('nested.arrow', pa.table({'m': pa.array([[('k', 1)]], pa.map_(pa.string(), pa.int32())), 'l': pa.array([[{'a': 1}]]), 'x': pa.array([5], pa.int32()), 'z': pa.nulls(1)}))
for i, part in enumerate(([1, 2], [3], [4, 5])):
    write(f'part-{i}.arrow', pa.table({'x': pa.array(part, pa.int32())}))
write('other.arrow', pa.table({'y': pa.array([1], pa.int32())}))

# Images as Hugging Face's datasets stores them on disk: a stream, structures of bytes and path.
from PIL import Image
from datasets import ClassLabel, Dataset, Features, Image as HFImage

pictures = []
for i in range(12):
    b = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (4, 4, 3)).astype('u1')).save(b, 'PNG')
    pictures.append({'bytes': b.getvalue(), 'path': f'{i}.png'})
labels = [i % 2 for i in range(12)]
ds = Dataset.from_dict({'image': pictures, 'label': labels}, features=Features({'image': HFImage(), 'label': ClassLabel(names=['even', 'odd'])}))
folder = tempfile.mkdtemp()
ds.save_to_disk(folder)
shutil.copy(os.path.join(folder, 'data-00000-of-00001.arrow'), 'images.arrow')
shutil.rmtree(folder)
expect['images'] = {'image': [list(p['bytes']) for p in pictures], 'label': labels}
json.dump(expect, open('expect.json', 'w'), default=str, separators=(',', ':'))
