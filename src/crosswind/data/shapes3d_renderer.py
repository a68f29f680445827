"""The pictures behind Shapes3D: a ray caster for one solid on the floor of a coloured room.

A picture is a weighted sum of the colours of floor, wall, object and sky, pixel by pixel. The weights depend on shape, scale and
orientation only: each of those 480 views is cast once, 16 rays a pixel, and kept; colouring a picture is then one small product
of matrices. Weights are whole 4096ths, so that the product is exact in float32: a row has the same bits alone and among others,
whatever multiplies the matrices.

The room is 7 x 7 and open to the sky; the camera stands on a ring around the object and looks down at it. Lengths are in units
of the room, z points up, and the solids stand on z = 0 at the origin, their faces along the walls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Point = tuple[float, float, float]
Vectors = tuple[Floats, Floats, Floats]
Origin = tuple[Any, Any, Any]
"""Where rays begin: one point for all, or one for each."""
Hits = tuple[Floats, Vectors]
"""How far along each ray, infinite where it misses, and the normal there."""

SHAPES = ("cube", "cylinder", "sphere", "capsule")
SCALES = tuple(0.75 + 0.5 * step / 7 for step in range(8))
ORIENTATIONS = tuple(-30.0 + 60.0 * step / 14 for step in range(15))  # degrees of the camera about the vertical

HALF = 3.5  # half the side of the room
WALL = 2.55  # height of the walls
RING, HEIGHT = 3.2, 1.9  # of the camera: distance from the axis, and above the floor
TARGET = 0.8  # height of the point on the axis that the camera looks at
LENS = 1.35  # distance of the picture's plane in half sides of the picture
LIGHT = (-0.48, -0.36, 0.80)  # where the light comes from, a unit vector
AMBIENT, SUN, LAMP = 0.45, 0.38, 0.15  # light from everywhere, from the sun, and from the camera
SKY = ((150, 185, 235), (222, 236, 250))  # straight ahead above the wall, and near it
FINE = 4  # rays a pixel, each way
UNIT = 4096
FLOOR, WALLS, OBJECT, HIGH, LOW, HALVES = range(6)  # columns of a view: weights of the colours, and a half for rounding
RAYS = 1 << 16  # that are cast at once
KEPT = 256 << 20  # bytes of views that are kept

# Half the side of the cube, the radii of sphere, cylinder and capsule, and the heights of the last two, at scale 1.
CUBE, SPHERE, CYLINDER, CAPSULE = 0.7, 0.84, (0.7, 1.45), (0.56, 1.95)
REACH, TALL = 0.85, 1.96  # no solid reaches further from its axis along x or y, or higher, at scale 1


def hue_colors(saturation: float, value: float, count: int = 10) -> NDArray[np.uint8]:
    """The colours of `count` hues at equal steps from red: uint8 [count, 3]. `saturation` and `value` in [0, 1]."""
    hue = np.arange(count) * 6 / count
    ramps = np.stack([np.clip(np.abs((hue - middle) % 6 - 3) - 1, 0, 1) for middle in (0, 2, 4)], axis=1)
    return np.rint(255 * value * (1 - saturation * (1 - ramps))).astype(np.uint8)


def drawn_rooms(
    views: NDArray[np.int64], floors: NDArray[np.uint8], walls: NDArray[np.uint8], objects: NDArray[np.uint8], size: int
) -> NDArray[np.uint8]:
    """The pictures of rooms: uint8 [n, size, size, 3].

    `views` [n]: (scale x 4 + shape) x 15 + orientation, by their places in `SCALES`, `SHAPES` and `ORIENTATIONS`. `floors`,
    `walls`, `objects`: colours uint8 [n, 3].
    """
    view = _views(size)
    colors = np.empty((len(views), 6, 3), dtype=np.float32)
    colors[:, FLOOR], colors[:, WALLS], colors[:, OBJECT] = floors, walls, objects
    colors[:, HIGH], colors[:, LOW], colors[:, HALVES] = *SKY, 1
    out = np.empty((len(views), size * size, 3), dtype=np.uint8)
    for place, number in enumerate(views.tolist()):
        out[place] = view(number) @ colors[place]
    return out.reshape(-1, size, size, 3)


@cache
def _views(size: int) -> Callable[[int], NDArray[np.float32]]:
    """The views of pictures of one size, by number: weights float32 [size x size, 6], each a whole number of 4096ths."""
    kept: dict[int, NDArray[np.float32]] = {}
    most = max(1, KEPT // (size * size * 24))
    lock = threading.Lock()

    def view(number: int) -> NDArray[np.float32]:
        found = kept.get(number)
        if found is None:
            kind, orientation = divmod(number, len(ORIENTATIONS))
            scale, shape = divmod(kind, len(SHAPES))
            found = _cast(SHAPES[shape], SCALES[scale], orientation, size)
            with lock:
                while len(kept) >= most:
                    del kept[next(iter(kept))]
                kept[number] = found
        return found

    return view


def _cast(shape: str, scale: float, orientation: int, size: int) -> NDArray[np.float32]:
    """One view: the empty room, cast again where the object or its shadow can be."""
    weights = _empty_room(orientation, size).copy()
    solid = _SOLIDS[shape]
    rows, columns = _window(scale, orientation, size)
    for band in _bands(rows, columns):
        eye, rays = _rays(orientation, band, columns, size)
        material, shade, place = _room(eye, rays)
        distance, normal = solid(eye, rays, scale)
        hit = distance < np.inf
        floor = np.flatnonzero((material == FLOOR) & ~hit)
        x, y, z = (part[floor] for part in place)
        to_light, _ = solid((x, y, z), _everywhere(LIGHT, len(floor)), scale)
        shade[floor[to_light < np.inf]] -= SUN * LIGHT[2]
        material[hit] = OBJECT
        shade[hit] = _shade(normal, rays)[hit]
        weights.reshape(size, size, 6)[band, columns] = _averaged(material, shade, rays, band, columns)
    return weights


@cache
def _empty_room(orientation: int, size: int) -> NDArray[np.float32]:
    weights = np.empty((size, size, 6), dtype=np.float32)
    whole = slice(0, size)
    for band in _bands(whole, whole):
        eye, rays = _rays(orientation, band, whole, size)
        material, shade, _ = _room(eye, rays)
        weights[band] = _averaged(material, shade, rays, band, whole)
    return weights.reshape(size * size, 6)


def _bands(rows: slice, columns: slice) -> list[slice]:
    """The rows in parts of a bounded number of rays."""
    step = max(1, RAYS // ((columns.stop - columns.start) * FINE * FINE))
    return [slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step)]


def _camera(orientation: int) -> tuple[Point, list[Point]]:
    """Where the camera is, and the directions to the right, up and forward of its picture."""
    angle = np.deg2rad(ORIENTATIONS[orientation])
    # Rounded, so that machines whose sines differ in the last bit draw the same pixels.
    sin, cos = float(np.round(np.sin(angle), 12)), float(np.round(np.cos(angle), 12))
    eye = (RING * sin, -RING * cos, HEIGHT)
    length = float(np.sqrt(RING**2 + (HEIGHT - TARGET) ** 2))
    ahead, down = RING / length, (HEIGHT - TARGET) / length
    return eye, [(cos, sin, 0.0), (-sin * down, cos * down, ahead), (-sin * ahead, cos * ahead, -down)]


def _rays(orientation: int, rows: slice, columns: slice, size: int) -> tuple[Point, Vectors]:
    """Where the camera is, and the unit directions of the rays through some rows and columns of pixels: three [rays]."""
    eye, (right, up, forward) = _camera(orientation)
    step = 2 / (size * FINE)
    across, down = ((np.arange(part.start * FINE, part.stop * FINE) + 0.5) * step - 1 for part in (columns, rows))
    parts = [(right[axis] * across[None, :] - up[axis] * down[:, None] + LENS * forward[axis]).reshape(-1) for axis in range(3)]
    length = np.sqrt(parts[0] * parts[0] + parts[1] * parts[1] + parts[2] * parts[2])
    return eye, (parts[0] / length, parts[1] / length, parts[2] / length)


def _window(scale: float, orientation: int, size: int) -> tuple[slice, slice]:
    """The rows and columns of pixels in which the solid and its shadow lie."""
    eye, axes = _camera(orientation)
    across, down = [], []
    for x in (-REACH * scale, REACH * scale):
        for y in (-REACH * scale, REACH * scale):
            for z in (0.0, TALL * scale):
                shadow = (x - LIGHT[0] / LIGHT[2] * z, y - LIGHT[1] / LIGHT[2] * z, 0.0)
                for point in ((x, y, z), shadow):
                    to = [sum((p - e) * a for p, e, a in zip(point, eye, axis, strict=True)) for axis in axes]
                    across.append(LENS * to[0] / to[2])
                    down.append(-LENS * to[1] / to[2])
    return _pixels(min(down), max(down), size), _pixels(min(across), max(across), size)


def _pixels(low: float, high: float, size: int) -> slice:
    first, last = (int(np.floor((part + 1) / 2 * size)) for part in (low, high))
    return slice(max(0, first), min(size, last + 1))


def _room(eye: Point, rays: Vectors) -> tuple[NDArray[np.int64], Floats, Vectors]:
    """What of the empty room the rays meet, how bright it is, and where: [rays], [rays], three [rays]."""
    x, y, z = rays
    with np.errstate(divide="ignore"):
        to_x = (np.copysign(HALF, x) - eye[0]) / x
        to_y = (np.copysign(HALF, y) - eye[1]) / y
        to_z = np.where(z < 0, -eye[2] / z, np.inf)
    distance = np.minimum(np.minimum(to_x, to_y), to_z)
    place = (eye[0] + distance * x, eye[1] + distance * y, eye[2] + distance * z)
    on_floor, along_x = to_z == distance, to_x <= to_y
    none = np.zeros_like(x)
    normal = (
        np.where(on_floor | ~along_x, none, -np.copysign(1.0, x)),
        np.where(on_floor | along_x, none, -np.copysign(1.0, y)),
        np.where(on_floor, 1.0, none),
    )
    material = np.where(on_floor, FLOOR, WALLS)
    material[place[2] > WALL] = HIGH
    return material, _shade(normal, rays), place


def _shade(normal: Vectors, rays: Vectors) -> Floats:
    """How bright surfaces are, 0 to 1: Lambert's law for the sun and for a lamp at the camera, on top of light from everywhere."""
    sun = normal[0] * LIGHT[0] + normal[1] * LIGHT[1] + normal[2] * LIGHT[2]
    lamp = -(normal[0] * rays[0] + normal[1] * rays[1] + normal[2] * rays[2])
    return np.asarray(AMBIENT + SUN * np.maximum(sun, 0) + LAMP * np.maximum(lamp, 0))


def _averaged(material: NDArray[np.int64], shade: Floats, rays: Vectors, rows: slice, columns: slice) -> NDArray[np.float32]:
    """The weights of pixels from their rays: float32 [rows, columns, 6]."""
    height, width = rows.stop - rows.start, columns.stop - columns.start
    # The sky pales towards the wall; the walls' tops are seen at about these slopes.
    high = np.clip((rays[2] - 0.02) / 0.16, 0, 1)
    sky = material == HIGH
    weights = np.zeros((height, width, 6), dtype=np.float32)
    for code in (FLOOR, WALLS, OBJECT, HIGH, LOW):
        if code in (HIGH, LOW):
            part = np.where(sky, high if code == HIGH else 1 - high, 0)
        else:
            part = np.where(material == code, shade, 0)
        # Whole numbers from here on: their sums do not depend on the order.
        whole = np.rint(part * UNIT).astype(np.int64).reshape(height, FINE, width, FINE).sum(axis=(1, 3))
        weights[..., code] = (whole + FINE * FINE // 2) // (FINE * FINE) / UNIT
    weights[..., HALVES] = 0.5
    return weights


def _everywhere(vector: Point, count: int) -> Vectors:
    x, y, z = (np.full(count, part) for part in vector)
    return x, y, z


def _nearest(parts: list[Hits]) -> Hits:
    """The first of several hits of each ray."""
    distance, normal = parts[0]
    for other, turned in parts[1:]:
        first = other < distance
        distance = np.where(first, other, distance)
        normal = tuple(np.where(first, new, old) for new, old in zip(turned, normal, strict=True))  # type: ignore[assignment]
    return distance, normal


def _cube(origin: Origin, rays: Vectors, scale: float) -> Hits:
    half = CUBE * scale
    enters, leaves = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for start, along, low, high in zip(origin, rays, (-half, -half, 0), (half, half, 2 * half), strict=True):
            one, other = (low - start) / along, (high - start) / along
            enters.append(np.minimum(one, other))
            leaves.append(np.maximum(one, other))
    enter = np.maximum(np.maximum(enters[0], enters[1]), enters[2])
    leave = np.minimum(np.minimum(leaves[0], leaves[1]), leaves[2])
    hit = (enter <= leave) & (enter > 0)
    x, y, z = (np.where(hit & (enter == part), -np.sign(along), 0) for part, along in zip(enters, rays, strict=True))
    return np.where(hit, enter, np.inf), (x, y, z)


def _ball(origin: Origin, rays: Vectors, radius: float, middle: float) -> Hits:
    """A ball with its centre on the axis at a height of `middle`."""
    x, y, z = origin[0], origin[1], origin[2] - middle
    toward = x * rays[0] + y * rays[1] + z * rays[2]
    inside = toward * toward - (x * x + y * y + z * z - radius * radius)
    distance = -toward - np.sqrt(np.maximum(inside, 0))
    distance = np.where((inside > 0) & (distance > 0), distance, np.inf)
    near = np.where(distance < np.inf, distance, 0)
    return distance, (
        (x + near * rays[0]) / radius,
        (y + near * rays[1]) / radius,
        (z + near * rays[2]) / radius,
    )


def _tube(origin: Origin, rays: Vectors, radius: float, low: float, high: float) -> Hits:
    """The side of a cylinder around the axis between two heights."""
    square = rays[0] * rays[0] + rays[1] * rays[1]
    toward = origin[0] * rays[0] + origin[1] * rays[1]
    inside = toward * toward - square * (origin[0] * origin[0] + origin[1] * origin[1] - radius * radius)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (-toward - np.sqrt(np.maximum(inside, 0))) / square
    height = origin[2] + np.where(inside > 0, distance, 0) * rays[2]
    distance = np.where((inside > 0) & (distance > 0) & (height >= low) & (height <= high), distance, np.inf)
    near = np.where(distance < np.inf, distance, 0)
    return distance, ((origin[0] + near * rays[0]) / radius, (origin[1] + near * rays[1]) / radius, np.zeros_like(near))


def _lid(origin: Origin, rays: Vectors, radius: float, height: float) -> Hits:
    """The disc on top of a cylinder, seen from above."""
    with np.errstate(divide="ignore"):
        distance = (height - origin[2]) / rays[2]
    reached = np.where(np.isfinite(distance), distance, 0)
    x, y = origin[0] + reached * rays[0], origin[1] + reached * rays[1]
    distance = np.where((reached > 0) & (x * x + y * y <= radius * radius), distance, np.inf)
    return distance, (np.zeros_like(distance), np.zeros_like(distance), np.ones_like(distance))


def _cylinder(origin: Origin, rays: Vectors, scale: float) -> Hits:
    radius, height = (part * scale for part in CYLINDER)
    return _nearest([_tube(origin, rays, radius, 0, height), _lid(origin, rays, radius, height)])


def _sphere(origin: Origin, rays: Vectors, scale: float) -> Hits:
    return _ball(origin, rays, SPHERE * scale, SPHERE * scale)


def _capsule(origin: Origin, rays: Vectors, scale: float) -> Hits:
    radius, height = (part * scale for part in CAPSULE)
    ends = [_ball(origin, rays, radius, middle) for middle in (radius, height - radius)]
    return _nearest([_tube(origin, rays, radius, radius, height - radius), *ends])


_SOLIDS: dict[str, Callable[[Origin, Vectors, float], Hits]] = {
    "cube": _cube,
    "cylinder": _cylinder,
    "sphere": _sphere,
    "capsule": _capsule,
}
