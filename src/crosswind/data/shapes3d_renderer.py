"""The pictures behind Shapes3D: a ray caster for one solid on the floor of a coloured room.

A picture is a weighted sum of the colours of floor, wall, object and sky, pixel by pixel. The
weights depend on shape, scale and orientation only: each of those 480 views is cast once, 16 rays a
pixel, and kept. Colouring a picture is then one small product of matrices. Weights are whole
4096ths, so that the product is exact in float32: a row has the same bits alone and among others,
whatever multiplies the matrices.

The room is 7 x 7 and open to the sky; the camera stands on a ring around the object and looks down
at it. Lengths are in units of the room, z points up, and the solids stand on z = 0 at the origin,
their faces along the walls.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Hits = tuple[Floats, Floats]
"""How far along each ray [rays], infinite where it misses, and the normal there [3, rays]."""

SHAPES = ("cube", "cylinder", "sphere", "capsule")
SCALES = tuple(0.75 + 0.5 * step / 7 for step in range(8))
ORIENTATIONS = tuple(
    -30.0 + 60.0 * step / 14 for step in range(15)
)  # degrees of the camera about the vertical

HALF = 3.5  # half the side of the room
WALL = 2.55  # height of the walls
RING, HEIGHT = 3.2, 1.9  # of the camera: distance from the axis, and above the floor
TARGET = 0.8  # height of the point on the axis that the camera looks at
LENS = 1.35  # distance of the picture's plane in half sides of the picture
LIGHT = np.array([[-0.48], [-0.36], [0.80]])  # where the light comes from, a unit vector
AMBIENT, SUN, LAMP = 0.45, 0.38, 0.15  # light from everywhere, from the sun, and from the camera
SKY = ((150, 185, 235), (222, 236, 250))  # straight ahead above the wall, and near it
FINE = 4  # rays a pixel, each way
UNIT = 4096
FLOOR, WALLS, OBJECT, HIGH, LOW, HALVES = range(
    6
)  # columns of a view: weights of the colours, and a half for rounding
RAYS = 1 << 16  # that are cast at once
KEPT = 256 << 20  # bytes of views that are kept

# Half the side of the cube, the radii of sphere, cylinder and capsule, and the heights of the last
# two, at scale 1.
CUBE, SPHERE, CYLINDER, CAPSULE = 0.7, 0.84, (0.7, 1.45), (0.56, 1.95)
REACH, TALL = (
    0.85,
    1.96,
)  # no solid reaches further from its axis along x or y, or higher, at scale 1


def hue_colors(saturation: float, value: float, count: int = 10) -> NDArray[np.uint8]:
    """The colours of `count` hues at equal steps from red: uint8 [count, 3]. `saturation` and
    `value` in [0, 1]."""
    hue = np.arange(count) * 6 / count
    ramps = np.stack(
        [np.clip(np.abs((hue - middle) % 6 - 3) - 1, 0, 1) for middle in (0, 2, 4)], axis=1
    )
    return np.rint(255 * value * (1 - saturation * (1 - ramps))).astype(np.uint8)


def drawn_rooms(
    views: NDArray[np.int64],
    floors: NDArray[np.uint8],
    walls: NDArray[np.uint8],
    objects: NDArray[np.uint8],
    size: int,
) -> NDArray[np.uint8]:
    """The pictures of rooms: uint8 [n, size, size, 3].

    `views` [n]: (scale x 4 + shape) x 15 + orientation, by their places in `SCALES`, `SHAPES` and
    `ORIENTATIONS`. `floors`, `walls`, `objects`: colours uint8 [n, 3].
    """
    view = _views(size)
    colors = np.empty((len(views), 6, 3), dtype=np.float32)
    colors[:, FLOOR], colors[:, WALLS], colors[:, OBJECT] = floors, walls, objects
    colors[:, HIGH], colors[:, LOW], colors[:, HALVES] = *SKY, 1
    out = np.empty((len(views), size * size, 3), dtype=np.uint8)
    for position, number in enumerate(views.tolist()):
        out[position] = view(number) @ colors[position]
    return out.reshape(-1, size, size, 3)


@cache
def _views(size: int) -> Callable[[int], NDArray[np.float32]]:
    """The views of pictures of one size, by number: weights float32 [size x size, 6], each a whole
    number of 4096ths."""
    views_kept: dict[int, NDArray[np.float32]] = {}
    most_views = max(1, KEPT // (size * size * 24))
    lock = threading.Lock()

    def view(number: int) -> NDArray[np.float32]:
        weights = views_kept.get(number)
        if weights is None:
            kind, orientation = divmod(number, len(ORIENTATIONS))
            scale, shape = divmod(kind, len(SHAPES))
            weights = _cast(SHAPES[shape], SCALES[scale], orientation, size)
            with lock:
                while len(views_kept) >= most_views:
                    del views_kept[next(iter(views_kept))]
                views_kept[number] = weights
        return weights

    return view


def _cast(shape: str, scale: float, orientation: int, size: int) -> NDArray[np.float32]:
    """One view: the empty room, cast again where the object or its shadow can be."""
    weights = _empty_room(orientation, size).copy()
    solid = _SOLIDS[shape]
    rows, columns = _window(scale, orientation, size)
    for band in _bands(rows, columns):
        eye, rays = _rays(orientation, band, columns, size)
        material, shade, point = _room(eye, rays)
        distance, normal = solid(eye, rays, scale)
        hit = distance < np.inf
        floor = np.flatnonzero((material == FLOOR) & ~hit)
        to_light, _ = solid(point[:, floor], LIGHT.repeat(len(floor), axis=1), scale)
        shade[floor[to_light < np.inf]] -= SUN * LIGHT[2, 0]
        material[hit] = OBJECT
        shade[hit] = _shade(normal, rays)[hit]
        weights.reshape(size, size, 6)[band, columns] = _averaged(
            material, shade, rays, band, columns
        )
    return weights


@cache
def _empty_room(orientation: int, size: int) -> NDArray[np.float32]:
    weights = np.empty((size, size, 6), dtype=np.float32)
    full = slice(0, size)
    for band in _bands(full, full):
        eye, rays = _rays(orientation, band, full, size)
        material, shade, _ = _room(eye, rays)
        weights[band] = _averaged(material, shade, rays, band, full)
    return weights.reshape(size * size, 6)


def _bands(rows: slice, columns: slice) -> list[slice]:
    """The rows in parts of a bounded number of rays."""
    step = max(1, RAYS // ((columns.stop - columns.start) * FINE * FINE))
    return [
        slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step)
    ]


def _camera(orientation: int) -> tuple[Floats, Floats]:
    """Where the camera is [3, 1], and the directions to the right, up and forward of its picture
    [3, 3]."""
    angle = np.deg2rad(ORIENTATIONS[orientation])
    # Rounded, so that machines whose sines differ in the last bit draw the same pixels.
    sin = float(np.round(np.sin(angle), 12))
    cos = float(np.round(np.cos(angle), 12))
    length = float(np.sqrt(RING**2 + (HEIGHT - TARGET) ** 2))
    ahead = RING / length
    down = (HEIGHT - TARGET) / length
    down_axis = (-sin * ahead, cos * ahead, -down)
    along_axis = (-sin * down, cos * down, ahead)
    axes = np.array([(cos, sin, 0.0), along_axis, down_axis])
    return np.array([[RING * sin], [-RING * cos], [HEIGHT]]), axes


def _rays(orientation: int, rows: slice, columns: slice, size: int) -> tuple[Floats, Floats]:
    """Where the camera is, and the unit directions of the rays through some rows and columns of
    pixels: [3, 1], [3, rays]."""
    eye, (right, up, forward) = _camera(orientation)
    step = 2 / (size * FINE)
    across, down = (
        (np.arange(pixels.start * FINE, pixels.stop * FINE) + 0.5) * step - 1
        for pixels in (columns, rows)
    )
    to_the_right = right[:, None, None] * across
    upwards = up[:, None, None] * down[:, None]
    rays = to_the_right - upwards + (LENS * forward)[:, None, None]
    rays = rays.reshape(3, -1)
    return eye, rays / np.sqrt(_dot(rays, rays))


def _dot(first: Floats, second: Floats) -> Floats:
    # In this order on every machine, so that the bits are the same.
    return np.asarray(first[0] * second[0] + first[1] * second[1] + first[2] * second[2])


def _window(scale: float, orientation: int, size: int) -> tuple[slice, slice]:
    """The rows and columns of pixels in which the solid and its shadow lie."""
    eye, (right, up, forward) = _camera(orientation)
    reach = REACH * scale
    corner_triples = list(itertools.product((-reach, reach), (-reach, reach), (0.0, TALL * scale)))
    corners = np.array(corner_triples).T
    points = np.hstack([corners, corners - LIGHT / LIGHT[2] * corners[2]]) - eye
    depth = _dot(points, forward) / LENS
    return _pixels(-_dot(points, up) / depth, size), _pixels(_dot(points, right) / depth, size)


def _pixels(corners: Floats, size: int) -> slice:
    first = int(np.floor((corners.min() + 1) / 2 * size))
    last = int(np.floor((corners.max() + 1) / 2 * size))
    return slice(max(0, first), min(size, last + 1))


def _room(eye: Floats, rays: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The parts of the empty room that the rays meet, how bright each is, and where: [rays],
    [rays], [3, rays]."""
    ends = np.copysign([[HALF], [HALF], [0.0]], rays)
    with np.errstate(divide="ignore"):
        to_x, to_y, to_z = (ends - eye) / rays
    to_z = np.where(rays[2] < 0, to_z, np.inf)
    distance = np.minimum(np.minimum(to_x, to_y), to_z)
    point = eye + distance * rays
    on_floor = to_z == distance
    along_x = to_x <= to_y
    normal = -np.copysign(1.0, rays)
    normal *= np.stack([~on_floor & along_x, ~on_floor & ~along_x, on_floor])
    material = np.where(on_floor, FLOOR, WALLS)
    material[point[2] > WALL] = HIGH
    return material, _shade(normal, rays), point


def _shade(normal: Floats, rays: Floats) -> Floats:
    """How bright surfaces are, 0 to 1: Lambert's law for the sun and for a lamp at the camera, on
    top of light from everywhere."""
    sun = _dot(normal, LIGHT)
    lamp = -_dot(normal, rays)
    return np.asarray(AMBIENT + SUN * np.maximum(sun, 0) + LAMP * np.maximum(lamp, 0))


def _averaged(
    material: NDArray[np.int64], shade: Floats, rays: Floats, rows: slice, columns: slice
) -> NDArray[np.float32]:
    """The weights of pixels from their rays: float32 [rows, columns, 6]."""
    height = rows.stop - rows.start
    width = columns.stop - columns.start
    # The sky pales towards the wall; the walls' tops are seen at about these slopes.
    high = np.clip((rays[2] - 0.02) / 0.16, 0, 1)
    sky = material == HIGH
    shade_of_material = {
        code: np.where(material == code, shade, 0) for code in (FLOOR, WALLS, OBJECT)
    }
    shade_of_material |= {HIGH: np.where(sky, high, 0), LOW: np.where(sky, 1 - high, 0)}
    weights = np.zeros((height, width, 6), dtype=np.float32)
    for code, material_shade in shade_of_material.items():
        # Whole numbers from here on: their sums do not depend on the order.
        whole_weights = (
            np.rint(material_shade * UNIT)
            .astype(np.int64)
            .reshape(height, FINE, width, FINE)
            .sum(axis=(1, 3))
        )
        weights[..., code] = (whole_weights + FINE * FINE // 2) // (FINE * FINE) / UNIT
    weights[..., HALVES] = 0.5
    return weights


def _nearest(hits_of_parts: list[Hits]) -> Hits:
    """The first of several hits of each ray."""
    distance, normal = hits_of_parts[0]
    for other_hits, turned in hits_of_parts[1:]:
        first = other_hits < distance
        distance = np.where(first, other_hits, distance)
        normal = np.where(first, turned, normal)
    return distance, normal


def _cube(origin: Floats, rays: Floats, scale: float) -> Hits:
    half = CUBE * scale
    low = np.array([[-half], [-half], [0.0]])
    high = np.array([[half], [half], [2 * half]])
    with np.errstate(divide="ignore", invalid="ignore"):
        near_faces = (low - origin) / rays
        far_faces = (high - origin) / rays
    enters = np.minimum(near_faces, far_faces)
    enter = enters.max(axis=0)
    leave = np.maximum(near_faces, far_faces).min(axis=0)
    hit = (enter <= leave) & (enter > 0)
    return np.where(hit, enter, np.inf), np.where(hit & (enter == enters), -np.sign(rays), 0)


def _ball(origin: Floats, rays: Floats, radius: float, middle: float) -> Hits:
    """A ball with its centre on the axis at a height of `middle`."""
    start = origin - [[0.0], [0.0], [middle]]
    toward = _dot(start, rays)
    inside = toward * toward - (_dot(start, start) - radius * radius)
    distance = -toward - np.sqrt(np.maximum(inside, 0))
    distance = np.where((inside > 0) & (distance > 0), distance, np.inf)
    return distance, (start + np.where(distance < np.inf, distance, 0) * rays) / radius


def _tube(origin: Floats, rays: Floats, radius: float, low: float, high: float) -> Hits:
    """The side of a cylinder around the axis between two heights."""
    square = rays[0] * rays[0] + rays[1] * rays[1]
    toward = origin[0] * rays[0] + origin[1] * rays[1]
    beyond = origin[0] * origin[0] + origin[1] * origin[1] - radius * radius
    inside = toward * toward - square * beyond
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (-toward - np.sqrt(np.maximum(inside, 0))) / square
    height = origin[2] + np.where(inside > 0, distance, 0) * rays[2]
    distance = np.where(
        (inside > 0) & (distance > 0) & (height >= low) & (height <= high), distance, np.inf
    )
    far = np.where(distance < np.inf, distance, 0)
    return distance, (origin + far * rays) / radius * [[1], [1], [0]]


def _lid(origin: Floats, rays: Floats, radius: float, height: float) -> Hits:
    """The disc on top of a cylinder, seen from above."""
    with np.errstate(divide="ignore"):
        distance = (height - origin[2]) / rays[2]
    reached = np.where(np.isfinite(distance), distance, 0)
    x = origin[0] + reached * rays[0]
    y = origin[1] + reached * rays[1]
    is_on_disk = x * x + y * y <= radius * radius
    distance = np.where((reached > 0) & is_on_disk, distance, np.inf)
    return distance, np.array([[0.0], [0.0], [1.0]]).repeat(len(distance), axis=1)


def _cylinder(origin: Floats, rays: Floats, scale: float) -> Hits:
    radius, height = (surface * scale for surface in CYLINDER)
    return _nearest([_tube(origin, rays, radius, 0, height), _lid(origin, rays, radius, height)])


def _sphere(origin: Floats, rays: Floats, scale: float) -> Hits:
    return _ball(origin, rays, SPHERE * scale, SPHERE * scale)


def _capsule(origin: Floats, rays: Floats, scale: float) -> Hits:
    radius, height = (surface * scale for surface in CAPSULE)
    ends = [_ball(origin, rays, radius, middle) for middle in (radius, height - radius)]
    return _nearest([_tube(origin, rays, radius, radius, height - radius), *ends])


_SOLIDS = {"cube": _cube, "cylinder": _cylinder, "sphere": _sphere, "capsule": _capsule}
