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

    def __init__(self, channels: int, condition_size: int, width: int, blocks: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            _padded(channels, width, 7),
            Told(width, condition_size),
            nn.ReLU(),
        ]
        for before in (width, 2 * width):
            layers += [
                nn.Conv2d(before, 2 * before, 3, 2, 1),
                Told(2 * before, condition_size),
                nn.ReLU(),
            ]
        layers += [_TranslationBlock(4 * width, condition_size) for _ in range(blocks)]
        for before in (4 * width, 2 * width):
            layers += [
                nn.ConvTranspose2d(before, before // 2, 3, 2, 1, 1),
                Told(before // 2, condition_size),
                nn.ReLU(),
            ]
        self.parts = nn.ModuleList([*layers, _padded(width, channels, 7), nn.Tanh()])
        _begin(self)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """See the class."""
        translation = _through(self.parts, x, condition)
        if translation.shape == x.shape:
            return translation
        return nn.functional.interpolate(translation, x.shape[2:])


class Told(nn.Module):
    """Instance norm with a scale and a shift by what the generator is told (Dumoulin et al. 2017).

    Told by planes beside the picture it would learn nothing: the norm takes away whatever is the
    same everywhere.
    """

    def __init__(self, channels: int, condition_size: int) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)
        self.by = nn.Linear(condition_size, 2 * channels) if condition_size else None

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Like x."""
        normalised: Tensor = self.norm(x)
        if self.by is None:
            return normalised
        scale, shift = self.by(condition.to(x.dtype))[:, :, None, None].chunk(2, 1)
        return normalised * (1.0 + scale) + shift


class _TranslationBlock(nn.Module):
    def __init__(self, width: int, condition_size: int) -> None:
        super().__init__()
        first = [_padded(width, width, 3), Told(width, condition_size), nn.ReLU()]
        self.parts = nn.ModuleList([*first, _padded(width, width, 3), Told(width, condition_size)])

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        return x + _through(self.parts, x, condition)


def _through(layers: nn.ModuleList, x: Tensor, condition: Tensor) -> Tensor:
    for layer in layers:
        if isinstance(layer, Told | _TranslationBlock):
            x = layer(x, condition)
        else:
            x = layer(x)
    return x


class Discriminator(nn.Module):
    """Pictures [n, c, h, w] and the cell that each is to be of, int64 [n] -> how real each patch is
    of it, [n, h', w']."""

    def __init__(self, shape: tuple[int, ...], cells: int, width: int) -> None:
        super().__init__()
        side = min(shape[1:])
        halved = max(1, min(3, (side // 16).bit_length() - 1))
        layers: list[nn.Module] = [nn.Conv2d(shape[0], width, 4, 2, 1), nn.LeakyReLU(0.2)]
        for index in range(halved):
            before = width * 2**index
            after = width * 2 ** (index + 1)
            stride = 1 if index == halved - 1 else 2
            layers += [
                nn.Conv2d(before, after, 4, stride, 1),
                nn.InstanceNorm2d(after),
                nn.LeakyReLU(0.2),
            ]
        self.net = nn.Sequential(*layers, nn.Conv2d(width * 2**halved, cells, 4, 1, 1))
        _begin(self)

    def forward(self, x: Tensor, cell: Tensor) -> Tensor:
        """See the class."""
        return self.net(x)[torch.arange(len(x), device=x.device), cell]


def pooled(translations: Tensor, cell: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
    """Translations to show the discriminator, their cells, and the pool after that (Zhu et al.
    2017, section 4).

    A row meets a place of the pool of its own. An empty place takes its translation, which is
    shown; a full one is shown with chance 1/2 and then takes it.
    """
    pool = state["pool"]
    pool_cells = state["pool_cell"]
    n = min(len(translations), len(pool))
    rows = torch.rand(len(translations), device=translations.device).argsort()[:n]
    positions = torch.rand(len(pool), device=translations.device).argsort()[:n]
    empty = pool_cells[positions] < 0
    old = (torch.rand(n, device=translations.device) < 0.5) & ~empty
    shown = translations.clone()
    cells = cell.clone()
    is_old = old.view(-1, 1, 1, 1)
    before = (pool[positions].to(translations.dtype) / 127.5 - 1.0).to(translations.dtype)
    shown[rows] = torch.where(is_old, before, translations[rows])
    cells[rows] = torch.where(old, pool_cells[positions], cell[rows])
    takes = old | empty
    changed = pool.clone()
    cells_after = pool_cells.clone()
    new = levels(translations[rows])
    changed[positions] = torch.where(takes.view(-1, 1, 1, 1), new, pool[positions])
    cells_after[positions] = torch.where(takes, cell[rows], pool_cells[positions])
    return shown, cells, {"pool": changed, "pool_cell": cells_after}


def _padded(before: int, after: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, padding=size // 2, padding_mode="reflect")


def _begin(network: nn.Module) -> None:
    for submodule in network.modules():
        if isinstance(submodule, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(submodule.weight, 0.0, SPREAD)
            assert submodule.bias is not None
            nn.init.zeros_(submodule.bias)
