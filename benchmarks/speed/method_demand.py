"""The arithmetic that each method's definition demands of a training step, beside ERM's, by the
plainest way of writing it.

`demand` counts the products (matrix products, convolutions with their padding) of a step's forward
and backward passes by torch's own formulas (torch.utils.flop_counter). The passes are written from
the method's docstring with torch's own layers, on the `meta` device: nothing is computed. Sums,
norms, activations, restyling and optimisers are no products and count nothing, so what a method
spends on them shows as time over the demand. `PLAIN` has one entry for each registered method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from crosswind.core.types import InputSpec
from crosswind.methods.base import Method
from crosswind.methods.l2d import Augmenter
from crosswind.methods.translation import Discriminator, Generator
from crosswind.models.build import Model, build_model, unnamed
from crosswind.models.networks.convolution import SmallMapConv2d

__all__ = ["BATCH", "ENVIRONMENTS", "PLAIN", "Given", "demand", "flops_of"]

BATCH, CLASSES, ENVIRONMENTS = 128, 3, 3


@dataclass(frozen=True)
class Given:
    """What a plain way is written on.

    `make` gives another model of the kind; `x` [n, 3, side, side] is a batch, `y` [n] its labels,
    `environments` the places of each environment's rows in it.
    """

    make: Callable[[], Model]
    x: Tensor
    y: Tensor
    environments: tuple[Tensor, ...]


def erm(method: Any, given: Given) -> None:
    """One pass there and back."""
    _descend(cross_entropy(given.make()(given.x), given.y))


def forward(method: Any, given: Given) -> None:
    """One pass there."""
    given.make()(given.x)


def dann(method: Any, given: Given) -> None:
    """A gradient reversal layer: one pass through model and discriminator, there and back."""
    model = given.make()
    sizes = [model.width, *[method.width] * method.layers]
    parts: list[nn.Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        parts += [nn.Linear(before, after), nn.ReLU()]
    told = nn.Sequential(*parts, nn.Linear(sizes[-1], len(given.environments))).to(given.x.device)
    features = model.features(given.x)
    _descend(cross_entropy(model.head(features), given.y) + cross_entropy(told(features), given.y))


def aligned(
    moments: Callable[[list[Tensor]], list[Tensor]], many: int | None = None
) -> Callable[[Any, Given], None]:
    """A penalty on the features of each part of the batch; `many`: in so many parts, None: by
    environment."""

    def plain(method: Any, given: Given) -> None:
        model = given.make()
        features = model.features(given.x)
        parts = (
            [features[rows] for rows in given.environments]
            if many is None
            else list(features.chunk(many))
        )
        _descend(
            cross_entropy(model.head(features), given.y)
            + torch.stack([one.sum() for one in moments(parts)]).sum()
        )

    return plain


def covariances(parts: list[Tensor]) -> list[Tensor]:
    """d x d of every part."""
    return [(part - part.mean(0)).T @ (part - part.mean(0)) / (len(part) - 1) for part in parts]


def kernels(parts: list[Tensor]) -> list[Tensor]:
    """Of every part's rows with its own and with those of each further part, from their
    products."""
    return [torch.exp(one @ other.T) for place, one in enumerate(parts) for other in parts[place:]]


def paired(compared: Callable[[Any, Tensor, Given], Tensor]) -> Callable[[Any, Given], None]:
    """Rows and as many partners there and back, and what compares their features: [2 n, d], the
    rows' before the partners'."""

    def plain(method: Any, given: Given) -> None:
        model = given.make()
        features = model.features(torch.cat([given.x, given.x]))
        _descend(
            cross_entropy(model.head(features), torch.cat([given.y, given.y]))
            + compared(method, features, given)
        )

    return plain


def angles(method: Any, features: Tensor, given: Given) -> Tensor:
    """A row with its partner: sums of products of numbers, no product of matrices."""
    one, other = features.chunk(2)
    return (one * other).sum()


def expanded(method: Any, features: Tensor, given: Given) -> Tensor:
    """Three layers, and d x d of each half, or n x n of its rows where they are fewer."""
    sizes = [features.shape[1], *[method.width] * 3]
    layers = [
        nn.Linear(before, after, device=features.device)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    halves = nn.Sequential(*layers)(features).chunk(2)
    return torch.stack(
        [(z @ z.T if len(z) < method.width else z.T @ z).square().sum() for z in halves]
    ).sum()


def against_clean(method: Any, features: Tensor, given: Given) -> Tensor:
    """The kernels of the first environment's rows, n clean members of pairs, and of those of the
    others, with each other."""
    clean, other = features.chunk(2)
    shares = other.chunk(ENVIRONMENTS - 1)
    parts = [
        clean @ clean.T,
        *(part @ part.T for part in shares),
        *(clean @ part.T for part in shares),
    ]
    return torch.stack([torch.exp(part).sum() for part in parts]).sum()


def sagnet(method: Any, given: Given) -> None:
    """Early part once; later part on contents in other styles, another's on styles with other
    contents; three ways back."""
    model, style = given.make(), given.make()
    tap = method.after or [name for name in model.stages if name != "stem"][1]
    hidden = model.until(given.x, tap)
    answers = style.head(style.after(hidden * 1.0, tap))
    told, even = cross_entropy(answers, given.y), -answers.log_softmax(1).mean()
    before = {
        id(p)
        for name in model.stages[: model.stages.index(tap) + 1]
        for p in _parameters(model, name)
    }
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    affine = [p for part in norms for p in part.parameters() if id(p) in before]
    late = [
        p for name in style.stages[style.stages.index(tap) + 1 :] for p in _parameters(style, name)
    ]
    torch.autograd.grad(told, [*late, *style.head.parameters()], retain_graph=True)
    torch.autograd.grad(even, affine, retain_graph=True)
    _descend(cross_entropy(model.head(model.after(hidden, tap)), given.y))


def ubnet(method: Any, given: Given) -> None:
    """The frozen model forwards, and what combines its maps there and back."""
    model = given.make().eval()
    with torch.no_grad():
        found = model.taps(given.x, model.stages)
        maps = [
            nn.functional.adaptive_avg_pool2d(found[name], method.side) for name in model.stages
        ]
    told = []
    for one in maps:
        reduced = nn.Conv2d(one.shape[1], method.channels, 1, device=one.device)(one)
        mixed = nn.Conv2d(method.channels, method.channels, 3, padding=1, device=one.device)(
            reduced
        )
        told.append(nn.Linear(method.channels, CLASSES, device=one.device)(mixed.mean((2, 3))))
    _descend(cross_entropy(torch.stack(told).mean(0), given.y))


def ascent(method: Any, given: Given) -> None:
    """The steps of a maximisation on a batch: forwards, and back to the inputs; once forwards
    before."""
    model = given.make()
    model.features(given.x)
    for _ in range(method.ascent_steps):
        x = given.x.detach().requires_grad_(True)
        torch.autograd.grad(cross_entropy(model(x), given.y), x)


def beta_vae(method: Any, given: Given) -> None:
    """Convolutions of stride 2 down to 4 pixels, two layers of codes, and as many convolutions
    back: there and back."""
    device, (n, channels, side, _) = given.x.device, given.x.shape
    widths = [method.channels * min(8, 2**place) for place in range((side // 4).bit_length() - 1)]
    x = given.x
    for before, after in zip([channels, *widths], widths, strict=False):
        x = nn.Conv2d(before, after, 4, 2, 1, device=device)(x)
    mean, spread = (
        nn.Linear(x[0].numel(), method.latents, device=device)(x.flatten(1)) for _ in range(2)
    )
    made = nn.Linear(method.latents, x[0].numel(), device=device)(mean + spread).view(x.shape)
    for before, after in zip(widths[::-1], [*widths[-2::-1], channels], strict=True):
        made = nn.ConvTranspose2d(before, after, 4, 2, 1, device=device)(made)
    _descend((made - given.x).square().sum() / n)


def cyclegan(method: Any, given: Given) -> None:
    """The generator three times there and back, the discriminator for both: a step of the
    translator."""
    shape = tuple(given.x.shape[1:])
    blocks = 6 if method.blocks is None else method.blocks
    told = torch.zeros(len(given.x), ENVIRONMENTS + CLASSES, device=given.x.device)
    make = Generator(shape[0], told.shape[1], method.width, blocks).to(given.x.device)
    tell = Discriminator(shape, ENVIRONMENTS * CLASSES, method.width).to(given.x.device)
    made = make(given.x, told)
    total = tell(made, given.y).sum() + make(made, told).sum() + make(given.x, told).sum()
    torch.autograd.grad(total, list(make.parameters()))
    _descend(tell(given.x, given.y).sum() + tell(made.detach(), given.y).sum())


def l2d(method: Any, given: Given) -> None:
    """Pictures and copies there and back for the classifier; there and back to the copies for what
    made them, which is trained."""
    model, device = given.make(), given.x.device
    code = [nn.Linear(model.width, model.width, device=device) for _ in range(2)]
    copies, _ = _restyled(given.x)
    features = model.features(torch.cat([copies, given.x]))
    codes = code[0](features)
    told = cross_entropy(model.head(codes), torch.cat([given.y, given.y])) + code[1](features).sum()
    _descend(told + (codes @ codes.T).sum())
    copies, trained = _restyled(given.x, True)
    if any(isinstance(part, nn.BatchNorm2d) for part in model.modules()):
        features = model.features(torch.cat([copies, given.x]))
    else:  # nothing but statistics of the batch brings the originals' slopes to the copies
        features = torch.cat([model.features(copies), model.features(given.x).detach()])
    codes = code[0](features)
    torch.autograd.grad((codes @ codes.T).sum() + code[1](features).sum(), trained)


def _restyled(x: Tensor, trained: bool = False) -> tuple[Tensor, list[Tensor]]:
    """Copies by a 1x1 convolution and four larger ones there and back; and what of it is trained:
    scales between, and noise."""
    channels, side = x.shape[1], x.shape[2]
    scales = [torch.zeros((), device=x.device, requires_grad=trained)]
    x = x + scales[0] * torch.rand_like(x)
    out = nn.functional.conv2d(x, torch.rand(channels, channels, 1, 1, device=x.device))
    for size in Augmenter((channels, side, side)).kernels:
        kernel = torch.rand(channels, channels, size, size, device=x.device)
        maps = nn.functional.conv2d(x, kernel)
        scales.append(torch.ones(maps.shape[1:], device=x.device, requires_grad=trained))
        out = out + nn.functional.conv_transpose2d(maps * scales[-1], kernel)
    return out, scales


def occamnets(method: Any, given: Given) -> None:
    """The trunk and an exit after each stage there and back: two convolutions, class maps, and a
    gate that stands alone."""
    model, device = given.make(), given.x.device
    names = [name for name in model.stages if name != "stem"]
    maps = model.taps(given.x, names)
    total = given.x.new_zeros(())
    for name in names:
        width = maps[name].shape[1]
        hidden = max(1, width // 4)
        first = nn.Conv2d(width, hidden, 3, padding=1, device=device)
        second = nn.Conv2d(hidden, width, 3, padding=1, device=device)
        found = second(first(maps[name].detach() if name == names[0] else maps[name]))
        total = total + cross_entropy(
            nn.Conv2d(width, CLASSES, 1, device=device)(found).mean((2, 3)), given.y
        )
        if name != names[-1]:
            gate = nn.Sequential(
                nn.Linear(width, 16, device=device), nn.Linear(16, 1, device=device)
            )
            total = total + gate(found.detach().mean((2, 3))).sum()
    _descend(total)


def pnd(method: Any, given: Given) -> None:
    """Two trunks and the experts' readers there and back, their heads on rows, on anchors and on
    answers told apart from them."""
    model, biased = given.make(), given.make()
    names = [name for name in model.stages if name != "stem"]
    ours, theirs = model.taps(given.x, names), biased.taps(given.x, names)
    device, n = given.x.device, len(given.x)
    last, many = ours[names[-1]].shape[1], min(n, method.anchors)
    total = given.x.new_zeros(())
    told = []
    for name in names:
        u, v = (_read(one[name], last) for one in (ours, theirs))
        half = [
            [nn.Linear(2 * last, 16, device=device), nn.Linear(16, CLASSES, device=device)]
            for _ in range(2)
        ]
        intrinsic, wrong = (nn.Sequential(*parts) for parts in half)
        d, b = intrinsic(torch.cat([u, v.detach()], 1)), wrong(torch.cat([u.detach(), v], 1))
        alike = intrinsic(torch.cat([u[:many], v[:many].detach()], 1))
        others = torch.cat(
            [
                u.detach().repeat(method.negatives, 1)[: many * method.negatives],
                v[:many].repeat(method.negatives, 1),
            ],
            1,
        )
        total = (
            total
            + cross_entropy(d, given.y)
            + cross_entropy(b, given.y)
            + alike.sum()
            + wrong(others).sum()
        )
        told.append(d.detach())
    gate = nn.Linear(CLASSES * len(names), len(names), device=device)
    _descend(total + gate(torch.cat(told, 1)).sum())


def _read(one: Tensor, last: int) -> Tensor:
    hidden = max(1, last // 4)
    first = nn.Conv2d(one.shape[1], hidden, 3, padding=1, device=one.device)
    return nn.Conv2d(hidden, last, 3, padding=1, device=one.device)(first(one)).mean((2, 3))


PLAIN: dict[str, Callable[[Any, Given], None]] = {
    "ada": erm,
    # Views are no products: their cost is told beside, and images a second are the goals of
    # `augmentations.py`.
    "augmix": erm,
    "autoaugment": erm,
    "imagenet": erm,
    "randaugment": erm,
    "beta-vae": beta_vae,
    "bn-adapt": erm,
    "bpa": erm,
    "causirl-coral": aligned(covariances, 2),
    "causirl-mmd": aligned(kernels, 2),
    "cos": paired(angles),
    "cyclegan": cyclegan,
    "dann": dann,
    "deepcoral": aligned(covariances),
    "erm": erm,
    "groupdro": erm,
    "irm": erm,
    "jtt": erm,
    "mixup": erm,
    "l2d": l2d,
    # at most: gradients of frozen weights are not needed, and changes of low rank are small beside
    "lora": erm,
    "me-ada": erm,
    "mmd": aligned(kernels),
    "mmd-align": paired(against_clean),
    "occamnets": occamnets,
    "pnd": pnd,
    "sagnet": sagnet,
    "ubnet": ubnet,
    "vicreg": paired(expanded),
    "wise-ft": erm,
}
"""A training step of each method; of "bpa", "jtt" and "ubnet" the second training's, of "pnd" its
main stage's, of "beta-vae" the autoencoder's and of "cyclegan" the translator's.
"""


def demand(
    method: Method, model: str, side: int, rows: int, steps: int, device: str = "meta"
) -> float:
    """The products of a training step over those of ERM's on the same model and batch.

    For "jtt" those of a whole run of `steps` steps over ERM's: the share of steps that ERM takes
    before, one prediction of all `rows`, and the steps. For "ada" and "me-ada" too: the steps, and
    the ascent of each row and of each copy of it. For "bn-adapt" those of a prediction, which goes
    through the model twice; its training is ERM's. A run of "wise-ft" is its base's.
    """
    knobs: Any = method
    name = str(knobs.registered_name)
    one = _counted(erm, method, model, side, device)
    step = _counted(PLAIN[name], method, model, side, device) / one
    if name == "jtt":
        return (
            knobs.first
            + _counted(forward, method, model, side, device) * rows / BATCH / (one * steps)
            + step
        )
    if name in ("ada", "me-ada"):
        moved = rows * (2**knobs.phases - 1) / BATCH
        return step + _counted(ascent, method, model, side, device) * moved / (one * steps)
    return 2.0 if name == "bn-adapt" else step


def flops_of(
    plain: Callable[[Any, Given], None],
    method: Any,
    model: str,
    side: int,
    batch: int = BATCH,
    device: str = "meta",
    **knobs: Any,
) -> int:
    """Operations of the products of `plain` on a model with these knobs; device "meta" does none,
    and takes a second to begin."""
    x, y = (
        torch.rand(batch, 3, side, side, device=device),
        torch.zeros(batch, dtype=torch.int64, device=device),
    )
    places = tuple(part.to(device) for part in torch.arange(batch).chunk(ENVIRONMENTS))

    def another() -> Model:
        made = (
            build_model(model, knobs, InputSpec.image(side, side, 3), unnamed(CLASSES), 0)
            .to(device)
            .train()
        )
        for part in made.modules():
            if type(part) is SmallMapConv2d:
                part.__class__ = nn.Conv2d
        return made

    with _Counting() as counted:
        plain(method, Given(another, x, y, places))
    return counted.total


class _Counting(TorchDispatchMode):
    """The sum of torch's formulas. Its own FlopCounterMode imports the compiler, two seconds, as a
    mode of ours would unasked."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in flop_registry:
            self.total += flop_registry[func._overloadpacket](*args, **(kwargs or {}), out_val=out)
        return out


_known: dict[tuple[str, str, int], int] = {}


def _counted(
    plain: Callable[[Any, Given], None], method: Method, model: str, side: int, device: str
) -> int:
    # ERM's is asked for with every method.
    key = (getattr(plain, "__name__", ""), model, side)
    if plain not in (erm, forward):
        return flops_of(plain, method, model, side, device=device)
    if key not in _known:
        _known[key] = flops_of(plain, method, model, side, device=device)
    return _known[key]


def _descend(total: Tensor) -> None:
    total.backward()  # type: ignore[no-untyped-call]


def _parameters(model: Model, stage: str) -> list[nn.Parameter]:
    return [p for name in model._stages[stage] for p in model.get_submodule(name).parameters()]
