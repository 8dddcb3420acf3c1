"""Fine-tunes a small BERT from a checkpoint with transformers' Trainer: evaluation, early stopping, the best model; recorded.

    python examples/libraries/transformers_finetune.py --epochs 3
    isobit verify last

Without --checkpoint it first makes one of its own (a model that has learnt nothing), so that no network is needed.
"""

import argparse
import pathlib
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments

import isobit
import isobit.transformers


class Sums(torch.utils.data.Dataset):
    """Rows of tokens; the label says whether the first token comes again."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(1, 20, (count, 12), generator=generator)
        self.labels = (self.tokens[:, 1:] == self.tokens[:, :1]).any(1).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "attention_mask": torch.ones(12, dtype=torch.long), "labels": self.labels[index]}


def make_checkpoint(folder):
    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                        max_position_embeddings=12, num_labels=2)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="a folder, or a name of the hub")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=10) as run, tempfile.TemporaryDirectory() as folder:
        isobit.seed(7)
        checkpoint = args.checkpoint or make_checkpoint(pathlib.Path(folder) / "start")
        model = BertForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
        options = TrainingArguments(
            str(pathlib.Path(folder) / "out"), num_train_epochs=args.epochs, per_device_train_batch_size=16, learning_rate=1e-3,
            warmup_steps=4, weight_decay=0.01, eval_strategy="epoch", save_strategy="epoch", save_total_limit=1,
            load_best_model_at_end=True, metric_for_best_model="accuracy", logging_steps=5, use_cpu=True, seed=7, report_to=[],
            disable_tqdm=True)
        trainer = Trainer(model, options, train_dataset=Sums(256, 1), eval_dataset=Sums(64, 2), compute_metrics=accuracy,
                          callbacks=[isobit.transformers.Recorder(run), EarlyStoppingCallback(early_stopping_patience=2)])
        trainer.train()
        result = trainer.evaluate()
        print(f"accuracy {result['eval_accuracy']:.4f}")
    print("weights", isobit.fingerprint(model))


if __name__ == "__main__":
    main()
