"""transformers' Trainer, recorded by isobit; killed, it resumes at the last epoch when it is run again.

python examples/python/trainers/transformers_trainer.py
isobit verify last
"""

import argparse
import pathlib

import torch
import transformers

import isobit


class Saved(transformers.TrainerCallback):
    """Notes the trainer's own checkpoint in isobit's, whenever it has written one."""

    def __init__(self, run):
        self.run = run

    def on_epoch_begin(self, _args, state, _control, **_others):
        self.run.epoch = int(state.epoch) + 1

    def on_save(self, args, state, _control, **_others):
        self.run.save({"checkpoint": f"checkpoint-{state.global_step}"})


def words(count):
    rows = torch.randint(3, 60, (count, 12))
    return [{"input_ids": row, "labels": row} for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default="runs")
    parser.add_argument("--checkpoints", default="runs/transformers-checkpoints")
    args = parser.parse_args()
    with isobit.record(args.runs, every=2, resume=True) as run:
        isobit.seed(7)
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=60, n_embd=24, n_layer=2, n_head=2, n_positions=16, bos_token_id=1, eos_token_id=2)
        )
        settings = transformers.TrainingArguments(
            args.checkpoints,
            num_train_epochs=3,
            per_device_train_batch_size=8,
            learning_rate=1e-2,
            lr_scheduler_type="cosine",
            warmup_steps=2,
            seed=7,
            save_strategy="epoch",
            logging_strategy="epoch",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = transformers.Trainer(model, settings, train_dataset=words(32), callbacks=[Saved(run)])
        saved = run.load()
        trainer.train(resume_from_checkpoint=str(pathlib.Path(args.checkpoints) / saved["checkpoint"]) if saved else None)
    print("weights", isobit.fingerprint(model))


if __name__ == "__main__":
    main()
