"""Several Python threads that serve one model: each call has the bits of a call alone."""

import threading
import unittest

import torch
from cases import Case
from torch import nn

import isobit


def models():
    torch.manual_seed(7)
    image = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(8 * 144, 64),
                          nn.LayerNorm(64), nn.Linear(64, 10), nn.Softmax(1)).eval()
    return image, nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), nn.LSTM(16, 12, batch_first=True).eval()


def run_all(targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Serving(Case):
    def test_threads_get_the_bits_of_one(self):
        image, text, steps = models()
        inputs = [(torch.randn(n, 3, 12, 12), torch.randn(n, 5, 16)) for n in range(1, 21)]

        def answer(x, words):
            with torch.no_grad():
                return image(x), text(words), steps(words)[0]

        before, wrong, calls = torch.get_num_threads(), [], []

        def serve(first, wanted):
            for i in range(2 * len(inputs)):
                k = (7 * i + 5 * first) % len(inputs)
                calls.append(k)
                if not all(torch.equal(a, b) for a, b in zip(answer(*inputs[k]), wanted[k], strict=True)):
                    wrong.append(k)

        with isobit.enabled():
            wanted = [answer(*each) for each in inputs]
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                run_all([lambda k=k: serve(k, wanted) for k in range(6)])
        torch.set_num_threads(before)
        self.assertEqual((wrong, len(calls)), ([], 3 * 6 * 2 * len(inputs)))

    def test_a_refusal_in_one_thread_leaves_the_others(self):
        image, _, _ = models()
        x, seen = torch.randn(4, 3, 12, 12), []

        def refused():
            try:
                torch.linalg.svd(torch.eye(3))
            except isobit.RefusedError as error:
                seen.append(error)

        def served():
            with torch.no_grad():
                seen.append(image(x))

        with isobit.enabled():
            with torch.no_grad():
                wanted = image(x)
            run_all((refused, served) * 5)
        answers = [each for each in seen if isinstance(each, torch.Tensor)]
        self.assertEqual((len(seen), len(answers)), (10, 5))
        self.assertTrue(all(torch.equal(each, wanted) for each in answers))


if __name__ == "__main__":
    unittest.main()
