"""Models at the size they are trained at: scripts/models --time --full-size. A step takes 10 ms to some seconds.

The other lists have models made small, whose steps are mostly calls; here the time goes to arithmetic and memory. Names end
with the shape of a batch. Images have 3 channels, recordings 22 channels of 1,125 samples, graphs (nodes, edges, features).
"""

import torch
import torch.nn.functional as F
from torch import nn

from model_runs.entries import Case, add, integers, uniform


def full_size(library, name, make):
    add(library, name, make, full_size=True)


# ---- images


def _image_model(library, name, batch, size):
    def make():
        if library == "timm":
            import timm

            model = timm.create_model(name, pretrained=False, num_classes=10)
        else:
            from torchvision import models

            model = models.get_model(name, weights=None, num_classes=10)
        return Case(model, (uniform(batch, 3, size, size),))

    full_size(library, f"{name}, {batch} x {size} x {size}", make)


for name, batch, size in (
    ("resnet18", 8, 224),
    ("resnet50", 8, 128),
    ("mobilenet_v3_large", 8, 224),
    ("efficientnet_b0", 4, 224),
    ("densenet121", 4, 128),
    ("convnext_tiny", 2, 224),
    ("swin_t", 2, 224),
    ("shufflenet_v2_x1_0", 8, 224),
    ("regnet_y_400mf", 8, 224),
    ("squeezenet1_1", 8, 224),
):
    _image_model("torchvision", name, batch, size)
for name, batch, size in (("vit_small_patch16_224", 2, 224), ("mixer_s16_224", 2, 224)):
    _image_model("timm", name, batch, size)


def _unet():
    import segmentation_models_pytorch as smp

    labels = integers(3, 4, 128, 128)
    return Case(
        smp.Unet("resnet18", encoder_weights=None, classes=3), (uniform(4, 3, 128, 128),), lambda y: F.cross_entropy(y, labels)
    )


def _unet_of_volumes():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(16, 32, 64, 128, 256), strides=(2, 2, 2, 2), num_res_units=2
    )
    labels, loss = integers(2, 1, 1, 64, 64, 64), DiceCELoss(to_onehot_y=True, softmax=True)
    return Case(model, (uniform(1, 1, 64, 64, 64),), lambda y: loss(y, labels))


def _denoiser():
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=32,
        in_channels=3,
        out_channels=3,
        layers_per_block=2,
        block_out_channels=(64, 128, 128, 256),
        down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"),
    )
    noise = uniform(4, 3, 32, 32)
    return Case(model, (uniform(4, 3, 32, 32), integers(1000, 4)), lambda y: F.mse_loss(y.sample, noise))


full_size("segmentation_models_pytorch", "Unet of resnet18, 4 x 128 x 128", _unet)
full_size("monai", "UNet of volumes, 1 x 64 x 64 x 64", _unet_of_volumes)
full_size("diffusers", "UNet2DModel, 4 x 32 x 32", _denoiser)


# ---- text and sound


def _text_model(model, configuration, batch, tokens, labels, padded=False, **options):
    def make():
        import transformers

        ids = integers(1000, batch, tokens, low=5)
        mask = torch.ones(batch, tokens, dtype=torch.long)
        for row in range(batch if padded else 0):
            mask[row, tokens - row * tokens // (2 * batch) :] = 0
        inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids if labels == "tokens" else integers(2, batch)}
        return Case(getattr(transformers, model)(getattr(transformers, configuration)(**options)), inputs)

    full_size("transformers", f"{model}, {batch} x {tokens} tokens", make)


_text_model("BertForSequenceClassification", "BertConfig", 4, 128, "classes", padded=True)
_text_model("DistilBertForSequenceClassification", "DistilBertConfig", 8, 64, "classes", padded=True)
_text_model("GPT2LMHeadModel", "GPT2Config", 1, 256, "tokens")
_text_model(
    "T5ForConditionalGeneration", "T5Config", 4, 64, "tokens", padded=True, d_model=512, num_layers=6, decoder_start_token_id=0
)
_text_model(
    "LlamaForCausalLM",
    "LlamaConfig",
    2,
    128,
    "tokens",
    hidden_size=512,
    intermediate_size=1376,
    num_hidden_layers=6,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=8000,
)


def _speech_model():
    import transformers

    options = transformers.Wav2Vec2Config(num_hidden_layers=4, mask_time_prob=0.0, layerdrop=0.0)
    return Case(
        transformers.Wav2Vec2ForSequenceClassification(options), {"input_values": uniform(2, 16000), "labels": integers(2, 2)}
    )


full_size("transformers", "Wav2Vec2 of 4 layers, 2 x 16000", _speech_model)


# ---- recordings


def _brain_model(name, batch):
    def make():
        from braindecode import models

        model = getattr(models, name)(n_chans=22, n_outputs=4, n_times=1125, sfreq=250)
        return Case(model, (uniform(batch, 22, 1125),))

    full_size("braindecode", f"{name}, {batch} x 22 x 1125", make)


for name, batch in (
    ("EEGNet", 64),
    ("ShallowFBCSPNet", 64),
    ("Deep4Net", 64),
    ("EEGConformer", 16),
    ("ATCNet", 32),
    ("SCCNet", 64),
):
    _brain_model(name, batch)


# ---- graphs


class _Graphs(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edges):
        return self.second(F.dropout(F.relu(self.first(x, edges)), 0.5, self.training), edges)


def _graph_model(name, nodes, edges, features, hidden):
    def make():
        import torch_geometric.nn as graphs

        layer = getattr(graphs, name)
        if name == "GINConv":
            layers = [
                layer(nn.Sequential(nn.Linear(inside, hidden), nn.ReLU(), nn.Linear(hidden, out)))
                for inside, out in ((features, hidden), (hidden, 7))
            ]
        elif name == "GATConv":
            layers = [layer(features, hidden // 8, heads=8), layer(hidden, 7, heads=1)]
        else:
            layers = [layer(features, hidden), layer(hidden, 7)]
        labels = integers(7, nodes)
        return Case(
            _Graphs(*layers), (uniform(nodes, features, low=0.0), integers(nodes, 2, edges)), lambda y: F.cross_entropy(y, labels)
        )

    full_size("torch_geometric", f"two {name}, {nodes} nodes, {edges} edges, {features} features", make)


_graph_model("GCNConv", 2708, 10556, 1433, 64)
_graph_model("GATConv", 2708, 10556, 1433, 64)
_graph_model("SAGEConv", 20000, 100000, 128, 128)
_graph_model("GINConv", 20000, 100000, 64, 64)


# ---- written in a script


def _table():
    def block(inside):
        return nn.Linear(inside, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1)

    labels = uniform(1024, 1)
    return Case(nn.Sequential(*block(30), *block(256), nn.Linear(256, 1)), (uniform(1024, 30),), lambda y: F.mse_loss(y, labels))


def _points():
    def block(inside, out):
        return nn.Conv1d(inside, out, 1), nn.BatchNorm1d(out), nn.ReLU()

    layers = (*block(3, 64), *block(64, 128), *block(128, 1024), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(1024, 10))
    return Case(nn.Sequential(*layers), (uniform(16, 3, 1024),))


def _dilated():
    layers, inside = [], 16
    for dilation in (1, 2, 4, 8, 16):
        layers += [nn.Conv1d(inside, 64, 3, padding=dilation, dilation=dilation), nn.ReLU(), nn.Dropout(0.1)]
        inside = 64
    return Case(nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 5)), (uniform(32, 16, 512),))


class _Autoencoder(nn.Module):
    """A variational one: encoder, mean and logarithm of the variance of 20 latent values, decoder."""

    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        hidden = F.relu(self.encoder(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        decoded = self.decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp())
        distance = F.binary_cross_entropy_with_logits(decoded, x, reduction="sum")
        return {"loss": distance - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())}


class _Adversaries(nn.Module):
    """DCGAN's generator and discriminator for images of 32 x 32."""

    def __init__(self):
        super().__init__()
        up = [nn.ConvTranspose2d(100, 256, 4, 1, 0, bias=False), nn.BatchNorm2d(256), nn.ReLU(inplace=True)]
        for inside, out in ((256, 128), (128, 64)):
            up += [nn.ConvTranspose2d(inside, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
        self.generator = nn.Sequential(*up, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())
        down = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True)]
        for inside, out in ((64, 128), (128, 256)):
            down += [nn.Conv2d(inside, out, 4, 2, 1), nn.BatchNorm2d(out), nn.LeakyReLU(0.2, inplace=True)]
        self.discriminator = nn.Sequential(*down, nn.Conv2d(256, 1, 4, 1, 0), nn.Flatten())

    def forward(self, noise):
        judged = self.discriminator(self.generator(noise))
        return {"loss": F.binary_cross_entropy_with_logits(judged, torch.ones_like(judged))}


class _Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(5000, 200), nn.LSTM(200, 200, 2, dropout=0.2), nn.Linear(200, 5000)

    def forward(self, words):
        return self.out(self.lstm(self.embedding(words))[0]).flatten(0, 1)


class _Recommender(nn.Module):
    """As DLRM: eight tables of 20,000 rows, four of each a sample; products of all pairs."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20000, 32, mode="sum") for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(32 + 36, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, numbers, rows):
        offsets = torch.arange(0, rows.shape[1], 4)
        below = self.bottom(numbers)
        vectors = torch.stack([below, *(table(row, offsets) for table, row in zip(self.tables, rows, strict=True))], 1)
        left, right = torch.tril_indices(9, 9, -1)
        return self.top(torch.cat([below, (vectors @ vectors.transpose(1, 2))[:, left, right]], 1)).squeeze(1)


def _script(name, model, inputs, loss=None):
    full_size("torch.nn", name, lambda: Case(model(), inputs(), loss() if loss else None))


full_size("torch.nn", "perceptron with batch norm, 1024 x 30", _table)
full_size("torch.nn", "PointNet, 16 x 3 x 1024", _points)
full_size("torch.nn", "dilated convolutions, 32 x 16 x 512", _dilated)
_script("variational autoencoder, 128 x 784", _Autoencoder, lambda: (uniform(128, 784, low=0.0),))
_script("DCGAN, 32 x 100", _Adversaries, lambda: (uniform(32, 100, 1, 1),))
_script("LSTM language model, 35 x 20 words", _Words, lambda: (integers(5000, 35, 20),))
_script(
    "recommender, 512 x 8 x 4",
    _Recommender,
    lambda: (uniform(512, 13), integers(20000, 8, 2048)),
    lambda: lambda y: F.binary_cross_entropy_with_logits(y, uniform(512, low=0.0)),
)
