"""A session without a script: cells that run one after another, in an event loop's thread, as Jupyter's kernel does."""

import asyncio
import code
import importlib.util
import threading
import unittest

import torch
from cases import Case, train

import isobit

CELLS = ["import torch, isobit", "isobit.enable()", "from cases import train", "first = train()",
         "x = torch.ones(3, requires_grad=True)", "y = (x * x).sum()", "y.backward()", "isobit.disable()"]


class Notebook(Case):
    def test_cells(self):
        """Each cell a task of an event loop that does not run in the main thread."""
        session = code.InteractiveInterpreter({"__name__": "__main__"})
        errors = []
        session.write = errors.append

        async def cell(text):
            session.runsource(text)

        async def kernel():
            for text in CELLS:
                await asyncio.create_task(cell(text))

        thread = threading.Thread(target=lambda: asyncio.run(kernel()))
        thread.start()
        thread.join()
        self.assertEqual(errors, [])
        with isobit.enabled():
            self.assertEqual(session.locals["first"], train())
        self.assertTrue(torch.equal(session.locals["x"].grad, torch.full((3,), 2.0)))

    @unittest.skipUnless(importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"),
                         "nbclient and ipykernel are not installed")
    def test_kernel(self):
        import nbclient
        import nbformat

        cells = [*CELLS[:2], "import cases", "print(cases.train())", "torch.special.bessel_j0(torch.ones(3))"]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
        with isobit.enabled():
            self.assertEqual(notebook.cells[3].outputs[0]["text"].strip(), train())
        self.assertIn("special_bessel_j0 is not certified", notebook.cells[4].outputs[0]["evalue"])


if __name__ == "__main__":
    unittest.main()
