"""Models written with torch.nn alone: they need no other library, so CI runs them."""

import torch
from torch import nn
from torch.nn import functional

from model_runs.entries import Case, add, image, integers, uniform


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return functional.relu(x + self.body(x))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.SiLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.head = nn.Conv2d(2 * width, 2, 1)

    def forward(self, x):
        skipped = self.down(x)
        return self.head(torch.cat([skipped, self.up(self.middle(skipped))], 1))


class Recurrent(nn.Module):
    """Words through an LSTM or a GRU, in both directions."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layer = layer(16, 12, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(24, 50)

    def forward(self, words):
        return self.head(self.layer(self.embedding(words))[0])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.body = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.head = nn.Linear(16, 40)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.embedding(source), self.embedding(target), tgt_mask=mask))


class VisionTransformer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.positions = nn.Parameter(torch.zeros(1, 16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 48, activation="gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(self.patches(x).flatten(2).transpose(1, 2) + self.positions).mean(1))


class Autoencoder(nn.Module):
    """Variational: the latent is drawn."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ELU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ELU(), nn.Linear(32, 192), nn.Sigmoid())

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, 1)
        made = self.decoder(mean + torch.exp(0.5 * spread) * torch.randn_like(mean))
        divergence = -0.5 * (1 + spread - mean * mean - spread.exp()).sum(1).mean()
        return {"loss": functional.binary_cross_entropy(made, x.flatten(1).clamp(0, 1)) + 0.01 * divergence}


class Dilated(nn.Module):
    """A stack of gated dilated convolutions over time, as WaveNet's."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i, padding=2**i) for i in range(4))
        self.head = nn.Conv1d(width, 16, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            value, gate = layer(x)[..., : x.shape[-1]].chunk(2, 1)
            x = x + torch.tanh(value) * torch.sigmoid(gate)
        return self.head(x)


class Mixer(nn.Module):
    def __init__(self, width=16, patches=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.norm = nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
        self.channels = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.channels(x)).mean(1))


class Recommender(nn.Module):
    """Bags of embeddings beside numbers, and their products in pairs, as DLRM's."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(30, 8, mode="sum") for _ in range(3))
        self.numbers = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
        self.head = nn.Sequential(nn.Linear(8 + 16, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, numbers, words):
        dense = self.numbers(numbers)
        rows = torch.stack([dense, *(bag(words[:, i]) for i, bag in enumerate(self.bags))], 1)
        return self.head(torch.cat([dense, torch.bmm(rows, rows.transpose(1, 2)).flatten(1)], 1))


class Speech(nn.Module):
    """Frames through a convolution and a GRU; connectionist temporal classification."""

    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(10, 16, 3, stride=2, padding=1)
        self.layer = nn.GRU(16, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 12)

    def forward(self, frames, labels):
        scores = self.head(self.layer(functional.relu(self.front(frames)).transpose(1, 2))[0]).log_softmax(-1)
        lengths = torch.full((frames.shape[0],), scores.shape[1]), torch.full((frames.shape[0],), labels.shape[1])
        return {"loss": functional.ctc_loss(scores.transpose(0, 1), labels, *lengths)}


def _lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


def _volume():
    return nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1),
        nn.InstanceNorm3d(4, affine=True),
        nn.LeakyReLU(0.1),
        nn.MaxPool3d(2),
        nn.Conv3d(4, 8, 3, padding=1),
        nn.BatchNorm3d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


for name, make in {
    "LeNet-5": lambda: Case(_lenet(), (uniform(4, 1, 28, 28),)),
    "residual network": lambda: Case(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            Residual(8),
            nn.MaxPool2d(2),
            Residual(8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 10),
        ),
        image(),
    ),
    "U-Net": lambda: Case(UNet(), image()),
    "three-dimensional convolutions": lambda: Case(_volume(), (uniform(2, 1, 12, 12, 12),)),
    "LSTM over words": lambda: Case(Recurrent(nn.LSTM), (integers(50, 3, 11),)),
    "GRU over words": lambda: Case(Recurrent(nn.GRU), (integers(50, 3, 11),)),
    "Transformer": lambda: Case(Transformer(), (integers(40, 2, 9), integers(40, 2, 7))),
    "vision Transformer": lambda: Case(VisionTransformer(), image()),
    "MLP-Mixer": lambda: Case(Mixer(), image()),
    "variational autoencoder": lambda: Case(Autoencoder(), (uniform(4, 3, 8, 8, low=0.0),)),
    "dilated convolutions over time": lambda: Case(Dilated(), (uniform(2, 1, 64),)),
    "recommender with embedding bags": lambda: Case(Recommender(), (uniform(6, 5), integers(30, 6, 3, 4))),
    "speech with CTC": lambda: Case(Speech(), (uniform(2, 10, 40), integers(12, 2, 6, low=1))),
}.items():
    add("torch.nn", name, make)
