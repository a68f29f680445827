"""The networks of a translator between pictures, those of CycleGAN: a generator that is told what
to make, and a discriminator."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crosswind.methods.base import State
from crosswind.methods.functional import levels

__all__ = ["KEPT", "Discriminator", "Generator", "Told", "pooled"]

KEPT = 50  # earlier translations that the discriminator may be shown again (Zhu et al. 2017)
SPREAD = 0.02  # of initial weights, the authors'


class Generator(nn.Module):
    """Pictures [n, c, h, w] and what to make of them, [n, told] -> pictures like them, values in
    (-1, 1) (Johnson et al. 2016)."""

    def __init__(self, channels: int, told: int, width: int, blocks: int) -> None:
        super().__init__()
        parts: list[nn.Module] = [_padded(channels, width, 7), Told(width, told), nn.ReLU()]
        for before in (width, 2 * width):
            parts += [nn.Conv2d(before, 2 * before, 3, 2, 1), Told(2 * before, told), nn.ReLU()]
        parts += [_Block(4 * width, told) for _ in range(blocks)]
        for before in (4 * width, 2 * width):
            parts += [
                nn.ConvTranspose2d(before, before // 2, 3, 2, 1, 1),
                Told(before // 2, told),
                nn.ReLU(),
            ]
        self.parts = nn.ModuleList([*parts, _padded(width, channels, 7), nn.Tanh()])
        _begin(self)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """See the class."""
        made = _through(self.parts, x, told)
        return made if made.shape == x.shape else nn.functional.interpolate(made, x.shape[2:])


class Told(nn.Module):
    """Instance norm with a scale and a shift by what the generator is told (Dumoulin et al. 2017).

    Told by planes beside the picture it would learn nothing: the norm takes away whatever is the
    same everywhere.
    """

    def __init__(self, channels: int, told: int) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)
        self.by = nn.Linear(told, 2 * channels) if told else None

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """Like x."""
        found: Tensor = self.norm(x)
        if self.by is None:
            return found
        scale, shift = self.by(told.to(x.dtype))[:, :, None, None].chunk(2, 1)
        return found * (1.0 + scale) + shift


class _Block(nn.Module):
    def __init__(self, width: int, told: int) -> None:
        super().__init__()
        first = [_padded(width, width, 3), Told(width, told), nn.ReLU()]
        self.parts = nn.ModuleList([*first, _padded(width, width, 3), Told(width, told)])

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        return x + _through(self.parts, x, told)


def _through(parts: nn.ModuleList, x: Tensor, told: Tensor) -> Tensor:
    for part in parts:
        x = part(x, told) if isinstance(part, Told | _Block) else part(x)
    return x


class Discriminator(nn.Module):
    """Pictures [n, c, h, w] and the cell that each is to be of, int64 [n] -> how real each patch is
    of it, [n, h', w']."""

    def __init__(self, shape: tuple[int, ...], cells: int, width: int) -> None:
        super().__init__()
        side = min(shape[1:])
        halved = max(1, min(3, (side // 16).bit_length() - 1))
        parts: list[nn.Module] = [nn.Conv2d(shape[0], width, 4, 2, 1), nn.LeakyReLU(0.2)]
        for place in range(halved):
            before, after = width * 2**place, width * 2 ** (place + 1)
            parts += [
                nn.Conv2d(before, after, 4, 1 if place == halved - 1 else 2, 1),
                nn.InstanceNorm2d(after),
                nn.LeakyReLU(0.2),
            ]
        self.net = nn.Sequential(*parts, nn.Conv2d(width * 2**halved, cells, 4, 1, 1))
        _begin(self)

    def forward(self, x: Tensor, cell: Tensor) -> Tensor:
        """See the class."""
        return self.net(x)[torch.arange(len(x), device=x.device), cell]


def pooled(made: Tensor, cell: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
    """Translations to show the discriminator, their cells, and the pool after that (Zhu et al.
    2017, section 4).

    A row meets a place of the pool of its own. An empty place takes its translation, which is
    shown; a full one is shown with chance 1/2 and then takes it.
    """
    pool, known = state["pool"], state["pool_cell"]
    n = min(len(made), len(pool))
    rows = torch.rand(len(made), device=made.device).argsort()[:n]
    places = torch.rand(len(pool), device=made.device).argsort()[:n]
    empty = known[places] < 0
    old = (torch.rand(n, device=made.device) < 0.5) & ~empty
    shown, cells = made.clone(), cell.clone()
    held = old.view(-1, 1, 1, 1)
    before = (pool[places].to(made.dtype) / 127.5 - 1.0).to(made.dtype)
    shown[rows] = torch.where(held, before, made[rows])
    cells[rows] = torch.where(old, known[places], cell[rows])
    takes = old | empty
    changed, cells_after = pool.clone(), known.clone()
    changed[places] = torch.where(takes.view(-1, 1, 1, 1), levels(made[rows]), pool[places])
    cells_after[places] = torch.where(takes, cell[rows], known[places])
    return shown, cells, {"pool": changed, "pool_cell": cells_after}


def _padded(before: int, after: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, padding=size // 2, padding_mode="reflect")


def _begin(network: nn.Module) -> None:
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, 0.0, SPREAD)
            assert part.bias is not None
            nn.init.zeros_(part.bias)
