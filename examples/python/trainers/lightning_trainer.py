"""Lightning's Trainer, recorded by isobit; killed, it resumes at the last epoch when it is run again.

python examples/python/trainers/lightning_trainer.py
isobit verify last
"""

import argparse
import pathlib
import tempfile

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import isobit


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
        )

    def training_step(self, batch, _index):
        loss = F.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, _index):
        self.log("val_loss", F.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)]


class Saved(lightning.Callback):
    """Lightning's checkpoint goes into isobit's, at the end of each epoch."""

    def __init__(self, run):
        self.run = run

    def on_train_epoch_start(self, trainer, _module):
        self.run.epoch = trainer.current_epoch + 1

    def on_train_epoch_end(self, trainer, _module):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "last.ckpt"
            trainer.save_checkpoint(file)
            self.run.save({"checkpoint": file.read_bytes()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=2, resume=True) as run, tempfile.TemporaryDirectory() as folder:
        isobit.seed(7)
        x = torch.randn(64, 6)
        data = TensorDataset(x, x.sum(1, keepdim=True).sin())
        model, resumed = Regression(), None
        if saved := run.load():
            resumed = pathlib.Path(folder) / "resumed.ckpt"
            resumed.write_bytes(saved["checkpoint"])
        trainer = lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            gradient_clip_val=1.0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            callbacks=[Saved(run)],
        )
        trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 32), ckpt_path=resumed)
    print("weights", isobit.fingerprint(model))


if __name__ == "__main__":
    main()
