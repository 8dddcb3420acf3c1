"""Fine-tunes a network of timm's from a checkpoint: timm's optimizer and schedule, averaged weights, the best model; recorded.

    python examples/libraries/timm_finetune.py --epochs 2
    isobit verify last
"""

import argparse
import pathlib
import tempfile

import timm
import timm.optim
import timm.scheduler
import timm.utils
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import isobit


def data(count, seed):
    """Noisy images with a bright square in one of the four corners."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator) * 0.5
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 16 * (label // 2):16 * (label // 2) + 12, 16 * (label % 2):16 * (label % 2) + 12] += 1
    return TensorDataset(images, labels)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet10t")
    parser.add_argument("--checkpoint", help="weights of that model for 10 classes")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=10) as run, tempfile.TemporaryDirectory() as folder:
        isobit.seed(7)
        files = pathlib.Path(folder)
        if args.checkpoint is None:
            torch.save(timm.create_model(args.model, num_classes=10).state_dict(), files / "start.pt")
        model = timm.create_model(args.model, num_classes=10, checkpoint_path=str(args.checkpoint or files / "start.pt"))
        model.reset_classifier(4)
        run.track(model)
        average = timm.utils.ModelEmaV3(model, decay=0.9)
        optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=3e-3, weight_decay=0.01)
        schedule = timm.scheduler.CosineLRScheduler(optimizer, t_initial=args.epochs, warmup_t=1, warmup_lr_init=1e-4)
        train, test = DataLoader(data(64, 1), 16, shuffle=True), DataLoader(data(32, 2), 32)
        best = -1.0
        for run.epoch in range(1, args.epochs + 1):
            schedule.step(run.epoch - 1)
            model.train()
            for x, y in train:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
                loss.backward()
                timm.utils.dispatch_clip_grad(model.parameters(), 1.0)
                optimizer.step()
                average.update(model)
            accuracy = evaluate(average.module, test)
            run.log("test", accuracy=accuracy)
            run.log("train", loss=loss, lr=optimizer.param_groups[0]["lr"])
            if accuracy > best:
                best = accuracy
                torch.save(average.module.state_dict(), files / "best.pt")
        model.load_state_dict(torch.load(files / "best.pt", weights_only=True))
        print(f"accuracy {best:.4f}")
    print("weights", isobit.fingerprint(model))


if __name__ == "__main__":
    main()
