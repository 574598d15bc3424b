"""Writes the Parquet files of the tests: needs numpy, pyarrow and datasets. Run it in this folder.

expect.json has what the tests must read: for each file the values of each column, row by row."""
import datetime, decimal, io, json, struct
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

rng = np.random.default_rng(7)
N = 150
expect = {}


def numbers(n=N):
    return {
        'f32': rng.standard_normal(n).astype('f4'), 'f64': rng.standard_normal(n), 'i8': rng.integers(-128, 128, n).astype('i1'),
        'i16': rng.integers(-2**15, 2**15, n).astype('i2'), 'i32': rng.integers(-2**31, 2**31, n).astype('i4'),
        'i64': rng.integers(-2**63, 2**63, n), 'u8': rng.integers(0, 256, n).astype('u1'),
        'u16': rng.integers(0, 2**16, n).astype('u2'), 'u32': rng.integers(0, 2**32, n).astype('u4'),
        'few': rng.integers(0, 5, n), 'flag': rng.integers(0, 2, n).astype(bool), 'h': rng.standard_normal(n).astype('f2'),
    }


def note(name, table):
    expect[name] = {c: table[c].to_pylist() for c in table.column_names}


def write(name, table, **k):
    pq.write_table(table, name, **k)


t = pa.table(numbers())
note('numbers', t)
for name, k in {
    'plain': dict(use_dictionary=False, compression='none'), 'dict': dict(compression='snappy'),
    'gzip': dict(compression='gzip'), 'brotli': dict(compression='brotli'), 'zstd': dict(compression='zstd'), 'lz4': dict(compression='lz4'),
    'v2': dict(compression='zstd', data_page_version='2.0', version='2.6', write_page_checksum=True),
    'index': dict(compression='snappy', write_page_index=True, data_page_size=256),
    'delta': dict(use_dictionary=False, column_encoding={c: 'DELTA_BINARY_PACKED' for c in ('i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'few')}, compression='none'),
    'split': dict(use_dictionary=False, column_encoding={c: 'BYTE_STREAM_SPLIT' for c in ('f32', 'f64', 'i32', 'i64', 'h')}),
}.items():
    write(f'numbers-{name}.parquet', t, row_group_size=64, **k)

# Lists, fixed lists, lists of lists.
rows = rng.integers(0, 100, (N, 2, 3)).astype('f4')
lists = pa.table({
    'l': pa.array(rows.reshape(N, 6).tolist(), pa.list_(pa.float32())),
    'fixed': pa.array(rows.reshape(N, 6).tolist(), pa.list_(pa.int16(), 6)),
    'nested': pa.array(rows.tolist(), pa.list_(pa.list_(pa.float64()))),
})
note('lists', lists)
write('lists.parquet', lists, row_group_size=60)
write('lists-v2.parquet', lists, row_group_size=60, data_page_version='2.0', data_page_size=512, use_dictionary=False)
write('ragged.parquet', pa.table({'l': pa.array([[1, 2], [3], [4, 5]], pa.list_(pa.int32()))}))
write('long.parquet', pa.table({'l': pa.array([[1, 2], [3, 4, 5]], pa.list_(pa.int32()))}))
write('hollow.parquet', pa.table({'l': pa.array([[1, 2], [], [4, 5]], pa.list_(pa.int32()))}))
holes = pa.table({'l': pa.array([[1, 2], None, [None, 5]], pa.list_(pa.int32())), 'n': pa.array([1.5, None, 2.5]), 'i': pa.array([None, 7, None], pa.int32())})
note('holes', holes)
write('holes.parquet', holes)

# Values with a rule.
days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(-20000, 20000, 50)]
stamps = [datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=int(x)) for x in rng.integers(0, 2**40, 50)]
dec = [decimal.Decimal(int(x)) / 100 for x in rng.integers(-10**7, 10**7, 50)]
rules = pa.table({
    'day': pa.array(days), 'us': pa.array(stamps, pa.timestamp('us', 'UTC')), 'ms': pa.array(stamps, pa.timestamp('us')).cast(pa.timestamp('ms'), safe=False),
    'ns': pa.array(stamps, pa.timestamp('ns')), 'time': pa.array([s.time() for s in stamps], pa.time64('us')),
    'dec': pa.array(dec, pa.decimal128(9, 2)), 'big': pa.array([d * 10**20 for d in dec], pa.decimal128(38, 2)),
    'label': pa.array([['cat', 'dog', 'ox'][i % 3] for i in range(50)]), 'coded': pa.array([['cat', 'dog', 'ox'][i % 3] for i in range(50)]).dictionary_encode(),
    'id': pa.array([bytes([i] * 5) for i in range(50)], pa.binary(5)),
})
write('rules.parquet', rules)
write('rules-int.parquet', rules.select(['dec', 'label']), store_decimal_as_integer=True, use_dictionary=False, column_encoding={'label': 'DELTA_LENGTH_BYTE_ARRAY', 'dec': 'PLAIN'})
write('int96.parquet', rules.select(['us', 'ns']), use_deprecated_int96_timestamps=True)
write('prefix.parquet', rules.select(['label']), use_dictionary=False, column_encoding={'label': 'DELTA_BYTE_ARRAY'})
epoch = datetime.datetime(1970, 1, 1)
us = [(s - epoch) // datetime.timedelta(microseconds=1) for s in stamps]
expect['rules'] = {
    'day': [(d - datetime.date(1970, 1, 1)).days for d in days], 'us': us, 'ms': [u // 1000 for u in us], 'ns': [u * 1000 for u in us],
    'time': [u % 86400000000 for u in us], 'dec': [float(d) for d in dec], 'big': [float(d * 10**20) for d in dec],
    'label': [i % 3 for i in range(50)], 'coded': [i % 3 for i in range(50)], 'id': [[i] * 5 for i in range(50)],
}

# Odd files.
write('empty.parquet', pa.table({'x': pa.array([], pa.float32())}))
write('nocolumns.parquet', pa.table({}))
with pq.ParquetWriter('gaps.parquet', pa.schema([('x', pa.int32())])) as w:
    for part in ([1, 2], [], [3], []):
        w.write_table(pa.table({'x': pa.array(part, pa.int32())}))
write('nested.parquet', pa.table({
    's': pa.array([{'a': 1, 'b': [{'c': 2}]}]), 'm': pa.array([[('k', 1)]], pa.map_(pa.string(), pa.int32())), 'x': pa.array([5], pa.int32()),
    'tree': pa.array([{'a': {'b': 7}}])}))
for i, part in enumerate(([1, 2], [3], [4, 5])):
    write(f'part-{i}.parquet', pa.table({'x': pa.array(part, pa.int32())}))
write('other.parquet', pa.table({'y': pa.array([1], pa.int32())}))

# Images as Hugging Face's datasets ships them: a structure of bytes and path.
import datasets
from PIL import Image
from datasets import Dataset, Features, Image as HFImage, ClassLabel

pictures, labels = [], []
for i in range(12):
    im = Image.fromarray(rng.integers(0, 256, (4, 4, 3)).astype('u1'))
    b = io.BytesIO()
    im.save(b, 'PNG')
    pictures.append({'bytes': b.getvalue(), 'path': f'{i}.png'})
    labels.append(i % 2)
ds = Dataset.from_dict({'image': pictures, 'label': labels}, features=Features({'image': HFImage(), 'label': ClassLabel(names=['even', 'odd'])}))
ds.to_parquet('images.parquet', batch_size=5)
expect['images'] = {'image': [list(p['bytes']) for p in pictures], 'label': labels}
json.dump(expect, open('expect.json', 'w'), default=str, separators=(',', ':'))
