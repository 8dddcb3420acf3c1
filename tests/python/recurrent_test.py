"""nn.LSTM, nn.GRU, nn.RNN and their cells as modules: packed sequences, modules' own defaults, training."""

import unittest

import torch
from cases import Case
from torch.nn.utils import rnn

import isobit


class Recurrent(Case):
    def test_packed_sequences_have_the_bits_of_each_alone(self):
        with isobit.enabled():
            for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
                torch.manual_seed(1)
                layer = kind(5, 7, 2, bidirectional=True, batch_first=True)
                x, lengths = torch.randn(4, 6, 5, requires_grad=True), [3, 6, 1, 4]
                packed = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
                y, sizes = rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
                self.assertEqual(sizes.tolist(), lengths)
                for i, length in enumerate(lengths):
                    alone = layer(x[i, :length])[0]
                    self.assertEqual(isobit.fingerprint(alone), isobit.fingerprint(y[i, :length].clone()))
                y.square().sum().backward()
                self.assertEqual(x.grad[2, 1:].abs().sum().item(), 0)
                self.assertGreater(x.grad[2, 0].abs().sum().item(), 0)

    def test_threads_and_instruction_sets_train_to_the_same_weights(self):
        def trained(isa, threads):
            torch.set_num_threads(threads)
            with isobit.enabled(isa=isa):
                torch.manual_seed(2)
                model = torch.nn.LSTM(6, 33, 2, dropout=0.2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                x = torch.randn(7, 9, 6)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x)[0].square().mean().backward()
                    optimizer.step()
                return isobit.fingerprint(model)

        before = torch.get_num_threads()
        try:
            self.assertEqual(len({trained("auto", 1), trained("auto", 2), trained("avx2", 3), trained("reference", 1)}), 1)
        finally:
            torch.set_num_threads(before)

    def test_cells_and_single_sequences(self):
        with isobit.enabled():
            for kind, cell in ((torch.nn.LSTM, torch.nn.LSTMCell), (torch.nn.GRU, torch.nn.GRUCell), (torch.nn.RNN, torch.nn.RNNCell)):
                layer, one = kind(5, 7), cell(5, 7)
                one.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
                x = torch.randn(1, 5)
                stepped = one(x[0])
                stepped = stepped[0] if isinstance(stepped, tuple) else stepped
                self.assertEqual(isobit.fingerprint(layer(x)[0][0].detach()), isobit.fingerprint(stepped.detach()))

    def test_projections_are_a_product_after_the_cell(self):
        with isobit.enabled():
            layer = torch.nn.LSTM(5, 7, proj_size=3)
            x, h, c = torch.randn(4, 2, 5), torch.zeros(2, 3), torch.zeros(2, 7)
            outputs = []
            for step in x:
                whole, c = torch.ops.aten.lstm_cell(step, [h, c], layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
                outputs.append(h := torch.nn.functional.linear(whole, layer.weight_hr_l0))
            self.assertEqual(isobit.fingerprint(layer(x)[0].detach()), isobit.fingerprint(torch.stack(outputs).detach()))


if __name__ == "__main__":
    unittest.main()
