"""Writes the pictures of the tests, among them odd and damaged ones, and what Pillow makes of them.

Needs numpy and Pillow 13. Run it in this folder. expect.bin holds planes of 8 bits that expect.txt lists by line:
file, operation, channels, height, width, offset.
"""
import io, struct, zlib
import numpy as np
from PIL import Image, ImageEnhance, features

print('Pillow', Image.__version__, 'libjpeg-turbo', features.version_feature('libjpeg_turbo'))


def write(name, data):
    with open(name, 'wb') as f:
        f.write(data)


def encode(im, kind, **options):
    b = io.BytesIO()
    im.save(b, kind, **options)
    return b.getvalue()


def photo(w, h):
    """A picture with smooth parts, edges and saturated colours."""
    y, x = np.mgrid[0:h, 0:w].astype(float)
    r = 128 + 90 * np.sin(x / 9) + 30 * np.cos(y / 5)
    g = 255 * y / h * (0.5 + 0.5 * np.sin((x + y) / 13))
    b = 255 * x / w
    a = np.clip(np.dstack([r, g, b]), 0, 255).astype(np.uint8)
    a[h // 4:h // 2, w // 3:w // 2] = (250, 20, 30)
    a[h // 2:h // 2 + h // 6, w // 2:w // 2 + w // 5] = (10, 40, 240)
    return Image.fromarray(a)


big = photo(81, 63)
for name, sampling in (('444', 0), ('422', 1), ('420', 2)):
    write(f'photo{name}.jpg', encode(big, 'JPEG', quality=92, subsampling=sampling))
write('photo.png', encode(big, 'PNG'))
write('photogrey.jpg', encode(big.convert('L'), 'JPEG', quality=92))
write('progressive.jpg', encode(big, 'JPEG', quality=92, progressive=True))

g = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8) * 2
rgb = Image.fromarray(np.dstack([g, g[::-1], g[:, ::-1]]))
j = encode(rgb, 'JPEG', quality=95)
write('ok.jpg', j)
write('cmyk.jpg', encode(rgb.convert('CMYK'), 'JPEG'))
for o in range(1, 9):
    exif = Image.Exif()
    exif[0x112] = o
    write(f'exif{o}.jpg', encode(rgb.crop((20, 10, 47, 28)), 'JPEG', exif=exif, quality=95, subsampling=2 if o % 2 else 1))
write('cut.jpg', j[:len(j) * 2 // 3])
write('noend.jpg', j[:-2])
write('trailing.jpg', j + b'junk')
write('empty.jpg', b'')
write('html.jpg', b'<html>404</html>')
write('really.png.jpg', encode(rgb, 'PNG'))
i = j.find(b'\xff\xc0')
b = bytearray(j)
b[i + 5:i + 9] = struct.pack('>HH', 65500, 65500)
write('huge.jpg', bytes(b))
b[i + 5:i + 9] = struct.pack('>HH', 0, 64)
write('noheight.jpg', bytes(b))
b[i + 5:i + 9] = struct.pack('>HH', 9000, 9000)
write('unlikely.jpg', bytes(b))
write('arithmetic.jpg', j[:i] + b'\xff\xc9' + j[i + 2:])

deep = (np.add.outer(np.arange(48) * 700, np.arange(64) * 500)).astype(np.uint16)
write('deep.png', encode(Image.fromarray(deep), 'PNG'))
rgba = rgb.convert('RGBA')
rgba.putalpha(Image.fromarray(np.add.outer(np.arange(48) * 4, np.arange(64)).astype(np.uint8)))
write('rgba.png', encode(rgba, 'PNG'))
write('palette.png', encode(rgb.convert('P'), 'PNG', transparency=0))
write('bit.png', encode(rgb.convert('1'), 'PNG'))
write('greyalpha.png', encode(rgba.convert('LA'), 'PNG'))
p = encode(rgb, 'PNG')
write('cut.png', p[:len(p) // 2])
b = bytearray(p)
b[-16] ^= 1
write('checksum.png', bytes(b))


def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


for name, side in (('huge.png', 50000), ('unlikely.png', 9000)):
    write(name, b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 2, 0, 0, 0))
          + chunk(b'IDAT', zlib.compress(b'\0' * 1000)) + chunk(b'IEND', b''))
write('frames.gif', encode(rgb, 'GIF', save_all=True, append_images=[rgb.rotate(90)]))
write('frames.webp', encode(rgb, 'WEBP', save_all=True, append_images=[rgb.rotate(90)]))
write('lossless.webp', encode(rgb, 'WEBP', lossless=True))
write('lossy.webp', encode(rgb, 'WEBP', quality=95))
write('alpha.webp', encode(rgba, 'WEBP', quality=95))
write('ok.bmp', encode(rgb, 'BMP'))

planes, lines, offset = [], [], 0


def expect(file, operation, im):
    """Records what Pillow makes of a file."""
    global offset
    a = np.asarray(im)
    a = a[None] if a.ndim == 2 else a.transpose(2, 0, 1)
    lines.append(f'{file} {operation} {a.shape[0]} {a.shape[1]} {a.shape[2]} {offset}')
    planes.append(a.astype(np.uint8).tobytes())
    offset += a.size


def opened(file):
    return Image.open(file)


for file in ('photo.png', 'photo444.jpg', 'photo422.jpg', 'photo420.jpg', 'photogrey.jpg', 'progressive.jpg'):
    im = opened(file).convert('RGB')
    expect(file, 'same', im)
    for w, h in ((40, 28), (13, 9)) + (((100, 70),) if file in ('photo.png', 'photo420.jpg') else ()):
        expect(file, 'resize', im.resize((w, h), Image.BILINEAR))
    expect(file, 'crop', im.crop((13, 9, 74, 56)).resize((40, 40), Image.BILINEAR))
for file in ('ok.jpg', 'cmyk.jpg', 'really.png.jpg', 'palette.png', 'bit.png', 'frames.gif', 'lossless.webp', 'lossy.webp', 'ok.bmp',
             'trailing.jpg'):
    expect(file, 'same', opened(file).convert('RGB'))
expect('rgba.png', 'resize', rgba.resize((40, 30), Image.BILINEAR))
expect('rgba.png', 'same', rgba.convert('RGB'))
expect('rgba.png', 'composed', Image.alpha_composite(Image.new('RGBA', rgba.size, (200, 100, 50, 255)), rgba).convert('RGB'))
expect('greyalpha.png', 'same', opened('greyalpha.png').convert('RGB'))
expect('photo.png', 'grey', big.convert('L'))
expect('alpha.webp', 'same', opened('alpha.webp').convert('RGBA'))
from PIL import ImageOps
for o in range(1, 9):
    expect(f'exif{o}.jpg', 'upright', ImageOps.exif_transpose(opened(f'exif{o}.jpg')))
half = big.crop((0, 0, 40, 36))
expect('photo.png', 'affine', half.transform(half.size, Image.AFFINE, (0.9, 0.2, 3, -0.15, 1.1, -2), Image.BILINEAR))
expect('photo.png', 'brightness', ImageEnhance.Brightness(half).enhance(1.3))
expect('photo.png', 'contrast', ImageEnhance.Contrast(half).enhance(0.6))
expect('photo.png', 'saturation', ImageEnhance.Color(half).enhance(1.5))
write('expect.bin.z', zlib.compress(b''.join(planes), 9))
write('expect.txt', ('\n'.join(lines) + '\n').encode())
