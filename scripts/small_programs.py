"""Whole steps of small programs, for scripts/bench-operators: (name, what makes a step).

What tutorials, PyTorch's own examples and papers' scripts run: nets of some thousand parameters, where a call costs as much as
its arithmetic, and the first sizes above them. Sizes are those of the programs.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], object]


def training(parameters, optimizer, loss) -> Step:
    steps = optimizer(list(parameters))

    def step():
        steps.zero_grad()
        loss().backward()
        steps.step()
    return step


def adam(parameters):
    return torch.optim.Adam(parameters)


def policy():
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


def act() -> Step:
    net, seen = policy(), torch.randn(1, 4)

    @torch.no_grad()
    def step():
        return torch.distributions.Categorical(logits=net(seen)).sample()
    return step


def policy_gradient() -> Step:
    net, seen, taken = policy(), torch.randn(64, 4), torch.randint(2, (64,))
    return training(net.parameters(), adam, lambda: F.cross_entropy(net(seen), taken))


def deep_q() -> Step:
    net = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
    seen, taken, reward = torch.randn(128, 8), torch.randint(4, (128, 1)), torch.randn(128, 1)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)

    def step():
        value = net(seen).gather(1, taken)
        with torch.no_grad():
            target = reward + 0.99 * net(seen).max(1).values.unsqueeze(1)
        optimizer.zero_grad()
        F.smooth_l1_loss(value, target).backward()
        nn.utils.clip_grad_value_(net.parameters(), 100)
        optimizer.step()
    return step


def logistic_regression() -> Step:
    net, x, y = nn.Linear(20, 1), torch.randn(256, 20), torch.rand(256, 1).round()
    return training(net.parameters(), lambda p: torch.optim.SGD(p, 0.1), lambda: F.binary_cross_entropy_with_logits(net(x), y))


def tabular() -> Step:
    net = nn.Sequential(nn.Linear(40, 200), nn.BatchNorm1d(200), nn.ReLU(), nn.Dropout(0.1), nn.Linear(200, 100),
                        nn.BatchNorm1d(100), nn.ReLU(), nn.Linear(100, 1))
    x, y = torch.randn(128, 40), torch.randn(128, 1)
    return training(net.parameters(), adam, lambda: F.mse_loss(net(x), y))


def variational_autoencoder() -> Step:
    into, mean, spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
    out, last, x = nn.Linear(20, 400), nn.Linear(400, 784), torch.rand(128, 784)

    def loss():
        hidden = F.relu(into(x))
        mu, log_variance = mean(hidden), spread(hidden)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_variance)
        found = F.binary_cross_entropy(torch.sigmoid(last(F.relu(out(z)))), x, reduction="sum")
        return found - 0.5 * torch.sum(1 + log_variance - mu.pow(2) - log_variance.exp())
    return training(nn.ModuleList([into, mean, spread, out, last]).parameters(), adam, loss)


def mnist() -> Step:
    net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10), nn.LogSoftmax(1))
    x, y = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    return training(net.parameters(), torch.optim.Adadelta, lambda: F.nll_loss(net(x), y))


def word_language_model() -> Step:
    words, layers, scores = nn.Embedding(10000, 200), nn.LSTM(200, 200, 2, dropout=0.2), nn.Linear(200, 10000)
    x, y = torch.randint(10000, (35, 20)), torch.randint(10000, (700,))
    return training(nn.ModuleList([words, layers, scores]).parameters(), lambda p: torch.optim.SGD(p, 1.0),
                    lambda: F.cross_entropy(scores(layers(F.dropout(words(x), 0.2))[0]).flatten(0, 1), y))


def names_by_letters() -> Step:
    layer, scores = nn.GRU(57, 128), nn.Linear(128, 18)
    x, y = torch.randn(9, 1, 57), torch.tensor([3])
    return training(nn.ModuleList([layer, scores]).parameters(), lambda p: torch.optim.SGD(p, 0.005),
                    lambda: F.cross_entropy(scores(layer(x)[0][-1]), y))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attended, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.attended(self.first(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(y.transpose(1, 2).contiguous().view(n, length, width))
        return x + self.net(self.second(x))


class LettersModel(nn.Module):
    """nanoGPT's for a CPU: four layers of 128, letters as tokens."""

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(65, 128), nn.Embedding(64, 128)
        self.blocks = nn.Sequential(*[Block(128, 4) for _ in range(4)], nn.LayerNorm(128), nn.Linear(128, 65, bias=False))

    def forward(self, x):
        return self.blocks(self.letters(x) + self.places(torch.arange(x.shape[1])))


def nano_gpt() -> Step:
    net, x, y = LettersModel(), torch.randint(65, (12, 64)), torch.randint(65, (768,))
    return training(net.parameters(), torch.optim.AdamW, lambda: F.cross_entropy(net(x).flatten(0, 1), y))


def nano_gpt_writes() -> Step:
    net, start = LettersModel(), torch.randint(65, (1, 32))

    @torch.no_grad()
    def step():
        text = start
        for _ in range(4):
            text = torch.cat([text, torch.multinomial(F.softmax(net(text)[:, -1], -1), 1)], 1)
        return text
    return step


def dcgan() -> Step:
    def up(*sizes, **options):
        return [nn.ConvTranspose2d(*sizes, bias=False, **options), nn.BatchNorm2d(sizes[1]), nn.ReLU(True)]

    def down(*sizes):
        return [nn.Conv2d(*sizes, bias=False), nn.BatchNorm2d(sizes[1]), nn.LeakyReLU(0.2, True)]

    makes = nn.Sequential(*up(100, 256, 4, 1, 0), *up(256, 128, 4, 2, 1), *up(128, 64, 4, 2, 1),
                          nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())
    judges = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, True), *down(64, 128, 4, 2, 1), *down(128, 256, 4, 2, 1),
                           nn.Conv2d(256, 1, 4, 1, 0), nn.Flatten(0))
    real, noise, true, false = torch.randn(16, 3, 32, 32), torch.randn(16, 100, 1, 1), torch.ones(16), torch.zeros(16)
    first, second = (torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)) for net in (makes, judges))

    def step():
        made = makes(noise)
        second.zero_grad()
        (F.binary_cross_entropy_with_logits(judges(real), true)
         + F.binary_cross_entropy_with_logits(judges(made.detach()), false)).backward()
        second.step()
        first.zero_grad()
        F.binary_cross_entropy_with_logits(judges(made), true).backward()
        first.step()
    return step


def small_encoder() -> Step:
    net, x = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2), torch.randn(32, 20, 64)
    return training(net.parameters(), adam, lambda: net(x).square().mean())


def graph_of_papers() -> Step:
    first, second = nn.Linear(1433, 16), nn.Linear(16, 7)
    edges, weight = torch.randint(2708, (2, 10556)), torch.rand(10556, 1)
    x, y = torch.rand(2708, 1433).round(), torch.randint(7, (2708,))

    def spread(h):
        return torch.zeros(2708, h.shape[1]).index_add(0, edges[1], h[edges[0]] * weight)
    return training(nn.ModuleList([first, second]).parameters(), adam,
                    lambda: F.cross_entropy(spread(second(F.dropout(F.relu(spread(first(x)))))), y))


def sines_of_places() -> Step:
    layers = nn.ModuleList([nn.Linear(2, 256), *[nn.Linear(256, 256) for _ in range(3)], nn.Linear(256, 1)])
    x, y = torch.rand(4096, 2), torch.rand(4096, 1)

    def loss():
        h = x
        for layer in layers[:-1]:
            h = torch.sin(30 * layer(h))
        return F.mse_loss(layers[-1](h), y)
    return training(layers.parameters(), adam, loss)


def burgers_equation() -> Step:
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    x = torch.rand(1000, 2, requires_grad=True)

    def loss():
        u = net(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0].sum(), x, create_graph=True)[0]
        return (slope[:, 1] - bend[:, 0] + u[:, 0] * slope[:, 0]).square().mean()
    return training(net.parameters(), adam, loss)


def real_nvp() -> Step:
    nets = nn.ModuleList([nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(6)])
    points = torch.randn(512, 2)

    def loss():
        x, volume = points, 0
        for i, net in enumerate(nets):
            kept, moved = x[:, i % 2:i % 2 + 1], x[:, 1 - i % 2:2 - i % 2]
            scale, shift = net(kept).chunk(2, 1)
            scale = torch.tanh(scale)
            x, volume = torch.cat([kept, moved * scale.exp() + shift], 1), volume + scale.sum(1)
        return -(torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1) + volume).mean()
    return training(nets.parameters(), adam, loss)


def eeg_by_time() -> Step:
    net = nn.Sequential(nn.Conv1d(22, 32, 25), nn.BatchNorm1d(32), nn.ELU(), nn.AvgPool1d(8), nn.Conv1d(32, 64, 9),
                        nn.BatchNorm1d(64), nn.ELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 4))
    x, y = torch.randn(16, 22, 500), torch.randint(4, (16,))
    return training(net.parameters(), torch.optim.AdamW, lambda: F.cross_entropy(net(x), y))


def contrasts() -> Step:
    net, a, b = nn.Linear(256, 64), torch.randn(128, 256), torch.randn(128, 256)
    itself, other = torch.eye(256, dtype=torch.bool), torch.cat([torch.arange(128, 256), torch.arange(128)])

    def loss():
        z = F.normalize(torch.cat([net(a), net(b)]), dim=1)
        return F.cross_entropy((z @ z.t() / 0.5).masked_fill(itself, -9e15), other)
    return training(net.parameters(), lambda p: torch.optim.SGD(p, 0.1), loss)


def programs() -> Iterator[tuple[str, Callable[[], Step]]]:
    yield "a policy acts, one state", act
    yield "policy gradient, 64 states, Adam", policy_gradient
    yield "deep Q, 128 states, AdamW", deep_q
    yield "logistic regression, 256 x 20, SGD", logistic_regression
    yield "tabular MLP, 128 x 40, Adam", tabular
    yield "variational autoencoder, 128 of MNIST, Adam", variational_autoencoder
    yield "PyTorch's MNIST example, 64, Adadelta", mnist
    yield "word language model, LSTM, 20 x 35, SGD", word_language_model
    yield "names by letters, GRU, one, SGD", names_by_letters
    yield "nanoGPT of letters, 12 x 64, AdamW", nano_gpt
    yield "nanoGPT of letters writes four", nano_gpt_writes
    yield "DCGAN, 16 of 32 x 32, Adam", dcgan
    yield "transformer encoder, 32 x 20 x 64, Adam", small_encoder
    yield "graph convolutions, Cora's size, Adam", graph_of_papers
    yield "sines of 4096 places (SIREN), Adam", sines_of_places
    yield "Burgers' equation (PINN), 1000 points, Adam", burgers_equation
    yield "RealNVP, 512 points, Adam", real_nvp
    yield "EEG in one dimension, 16 x 22 x 500, AdamW", eeg_by_time
    yield "SimCLR's head, 128 pairs, SGD", contrasts
