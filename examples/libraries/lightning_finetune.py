"""Fine-tunes a small network from a checkpoint with Lightning: validation, early stopping, the best model, a test; recorded.

    python examples/libraries/lightning_finetune.py --epochs 3
    isobit verify last
"""

import argparse
import pathlib
import tempfile

import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import isobit
import isobit.lightning


class Net(lightning.LightningModule):
    def __init__(self, width=32, lr=3e-3, classes=4):
        super().__init__()
        self.save_hyperparameters()
        self.stem = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.LayerNorm(width), torch.nn.GELU(),
                                        torch.nn.Dropout(0.1))
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.stem(x))

    def training_step(self, batch, _index):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _index):
        self._measure("val", batch)

    def test_step(self, batch, _index):
        self._measure("test", batch)

    def _measure(self, part, batch):
        scores = self(batch[0])
        self.log(f"{part}_loss", F.cross_entropy(scores, batch[1]))
        self.log(f"{part}_accuracy", (scores.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)]


def data(count, seed, classes=4):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 16, generator=generator)
    return TensorDataset(x, x[:, :classes].argmax(1))


def make_checkpoint(path):
    """Of a network for other classes: its first layers are what is kept."""
    torch.save(Net(classes=3).state_dict(), path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="a state dict of this network")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=10) as run, tempfile.TemporaryDirectory() as folder:
        isobit.seed(7)
        module = Net()
        start = torch.load(args.checkpoint or make_checkpoint(pathlib.Path(folder) / "start.pt"), weights_only=True)
        module.load_state_dict({name: tensor for name, tensor in start.items() if not name.startswith("head.")}, strict=False)
        best = ModelCheckpoint(folder, monitor="val_loss")
        trainer = lightning.Trainer(
            max_epochs=args.epochs, accelerator="cpu", logger=CSVLogger(folder), enable_progress_bar=False,
            enable_model_summary=False, gradient_clip_val=1.0, log_every_n_steps=4,
            callbacks=[isobit.lightning.Recorder(run), EarlyStopping("val_loss", patience=2), LearningRateMonitor(), best])
        trainer.fit(module, DataLoader(data(256, 1), 16, shuffle=True), DataLoader(data(64, 2), 64))
        module.load_state_dict(torch.load(best.best_model_path, weights_only=True)["state_dict"])
        result = trainer.test(module, DataLoader(data(64, 3), 64), verbose=False)[0]
        print(f"accuracy {result['test_accuracy']:.4f}")
    print("weights", isobit.fingerprint(module))


if __name__ == "__main__":
    main()
