"""Small pictures of images: as text for a terminal, as PNG for the page."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from tensight.kit.backend import Array

_LARGEST = 64
_SHADES = " .:-=+*#%@"


def pixels(image: Array, largest: int = _LARGEST) -> Array:
    """An image [C, H, W] or [H, W, C] as uint8 [H, W, 1 or 3], made smaller by leaving out; any range becomes 0 to 255.

    >>> pixels(np.array([[[0.0, 1.0]]])).ravel().tolist()
    [0, 255]
    """
    if image.shape[0] in (1, 3, 4):
        image = np.moveaxis(image, 0, -1)
    image = image[..., :3] if image.shape[-1] >= 3 else image[..., :1]
    step = max(1, -(-max(image.shape[:2]) // largest))
    image = np.nan_to_num(image[::step, ::step].astype(np.float64), posinf=0.0, neginf=0.0)
    if image.size and not (image.min() >= 0 and image.max() <= 255 and image.max() > 1):
        low, high = float(image.min()), float(image.max())
        image = (image - low) * (255 / ((high - low) or 1.0))
    return np.asarray(image.round().astype(np.uint8))


def sketch(image: Array, width: int = 32) -> str:
    """The image in characters, light ones for what is high.

    >>> sketch(np.array([[[0.0, 1.0], [1.0, 0.0]]]))
    ' @\\n@ '
    """
    small = pixels(image, width).mean(-1)
    index = (small / 255 * (len(_SHADES) - 1)).round().astype(int)
    return "\n".join("".join(_SHADES[one] for one in row) for row in index)


def png(image: Array) -> bytes:
    """The image as a PNG file.

    >>> png(np.zeros([1, 2, 2]))[1:4]
    b'PNG'
    """
    values = pixels(image)
    height, width, channels = values.shape
    rows = b"".join(b"\x00" + values[row].tobytes() for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
