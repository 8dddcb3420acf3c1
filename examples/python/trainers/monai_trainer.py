"""MONAI's SupervisedTrainer over Ignite's engine, recorded by isobit; killed, it resumes at the last epoch when it is run again.

python examples/python/trainers/monai_trainer.py
isobit verify last
"""

import argparse

import torch
from ignite.engine import Events
from monai.engines import SupervisedTrainer
from monai.inferers import SimpleInferer
from monai.losses import DiceCELoss
from monai.networks.nets import UNet
from torch.utils.data import DataLoader

import isobit


def discs(count):
    """Noisy images with a bright square, and the mask of it."""
    rows = []
    for image in torch.randn(count, 1, 16, 16) * 0.3:
        row, column = (int(torch.randint(2, 9, ())) for _ in range(2))
        mask = torch.zeros(1, 16, 16)
        mask[0, row : row + 5, column : column + 5] = 1
        rows.append({"image": image + mask, "label": mask})
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=2, resume=True) as run:
        isobit.seed(7)
        model = UNet(2, 1, 1, (4, 8, 16), (2, 2), num_res_units=1, dropout=0.1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loader = DataLoader(discs(32), 8, shuffle=True)
        trainer = SupervisedTrainer(
            device=torch.device("cpu"),
            max_epochs=3,
            train_data_loader=loader,
            network=model,
            optimizer=optimizer,
            loss_function=DiceCELoss(sigmoid=True),
            inferer=SimpleInferer(),
            amp=False,
        )
        if saved := run.load():
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            trainer.load_state_dict(saved["trainer"])

        @trainer.on(Events.EPOCH_STARTED)
        def _tell(engine):
            run.epoch = engine.state.epoch

        @trainer.on(Events.EPOCH_COMPLETED)
        def _save(engine):
            run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "trainer": dict(engine.state_dict())})

        trainer.run()
    print("weights", isobit.fingerprint(model))


if __name__ == "__main__":
    main()
