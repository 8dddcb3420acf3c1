"""torchvision's operators by schema (contract, section 16). The library itself is not needed: what it declares is declared here, with
kernels that answer nonsense, which no call may reach. The formulas written plainly in float64 give the values and gradients."""

import unittest

import torch

import isobit

SCHEMAS = """
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, \
bool aligned) -> Tensor
_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, \
SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor
deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, \
SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor
_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, \
SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, \
bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
""".strip().splitlines()
OPS = torch.ops.torchvision


def declare(schemas):
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in schemas:
        library.define(schema)
        library.impl(schema.split("(")[0], lambda *arguments: torch.full((3,), 7.0), "CPU")
    return library


torch.manual_seed(2)
CORNERS = torch.rand(60, 2) * 30
BOXES = torch.cat([CORNERS, CORNERS + torch.rand(60, 2) * 20], 1)
SCORES = (torch.rand(60) * 20).round()  # equal ones among them
IMAGES = torch.randn(2, 4, 20, 24)
ROIS = torch.cat([torch.randint(0, 2, (60, 1)).float(), BOXES - 3], 1)


def suppressed_plainly(boxes, scores, threshold):
    kept = []
    for i in scores.sort(descending=True, stable=True).indices.tolist():
        def overlap(j, i=i):
            low, high = torch.maximum(boxes[i, :2], boxes[j, :2]), torch.minimum(boxes[i, 2:], boxes[j, 2:])
            common = (high - low).clamp(min=0).prod()
            return common / sum((boxes[k, 2:] - boxes[k, :2]).prod() for k in (i, j)).sub(common)
        if all(overlap(j) <= threshold for j in kept):
            kept.append(i)
    return kept


def bilinear(plane, y, x, border):
    """plane [channels, h, w] at places y, x of any shape; border: as roi_align clamps, else as deform_conv2d has zeros."""
    h, w = plane.shape[1:]
    inside = (y >= -1) & (y <= h) & (x >= -1) & (x <= w) if border else (y > -1) & (y < h) & (x > -1) & (x < w)
    if border:
        y, x = y.clamp(0, h - 1), x.clamp(0, w - 1)
    top, left = y.detach().floor(), x.detach().floor()
    total = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = (top + dy).long(), (left + dx).long()
            there = inside & (row >= 0) & (row < h) & (column >= 0) & (column < w)
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
            total = total + plane[:, row.clamp(0, h - 1), column.clamp(0, w - 1)] * (weight * there)
    return total


def aligned_plainly(images, rois, scale, height, width, ratio, aligned):
    results = []
    for roi in rois:
        left, top, right, bottom = (roi[1:] * scale - (0.5 if aligned else 0)).tolist()
        w, h = right - left, bottom - top
        if not aligned:
            w, h = max(w, 1), max(h, 1)
        down, across = (ratio, ratio) if ratio > 0 else (-int(-h / height // 1), -int(-w / width // 1))
        y = top + h / height * (torch.arange(height * down, dtype=torch.float64) + 0.5) / max(down, 1)
        x = left + w / width * (torch.arange(width * across, dtype=torch.float64) + 0.5) / max(across, 1)
        values = bilinear(images[int(roi[0])], *torch.meshgrid(y, x, indexing="ij"), border=True)
        results.append(values.reshape(-1, height, down, width, across).sum((2, 4)) / max(down * across, 1))
    return torch.stack(results)


def deformed_plainly(x, weight, offset, mask, bias, stride, pad, groups, offset_groups):
    n, channels, _, _ = x.shape
    kh, kw = weight.shape[2:]
    rows, columns = offset.shape[2:]
    each, images = channels // offset_groups, []
    for i in range(n):
        taps = []
        for c in range(channels):
            for tap in range(kh * kw):
                group = c // each
                at = offset[i, (group * kh * kw + tap) * 2:][:2]
                y = torch.arange(rows)[:, None] * stride - pad + tap // kw + at[0]
                z = torch.arange(columns)[None] * stride - pad + tap % kw + at[1]
                taps.append(bilinear(x[i, c:c + 1], y, z, border=False)[0] * mask[i, group * kh * kw + tap])
        taps = torch.stack(taps).reshape(groups, -1, rows * columns)
        images.append((weight.reshape(groups, weight.shape[0] // groups, -1) @ taps).reshape(-1, rows, columns))
    return torch.stack(images) + bias.reshape(-1, 1, 1)


def deformable_inputs(groups, offset_groups):
    torch.manual_seed(groups)
    return [torch.randn(2, 4, 7, 8), torch.randn(6, 4 // groups, 3, 3), torch.randn(2, offset_groups * 18, 4, 4),
            torch.rand(2, offset_groups * 9, 4, 4), torch.randn(6)]


class Vision(unittest.TestCase):
    def setUp(self):
        self.library = declare(SCHEMAS)

    def tearDown(self):
        self.library._destroy()

    def near(self, ours, exact):
        scale = exact.abs().max().item() + 1e-30
        self.assertLess((ours.double() - exact).abs().max().item() / scale, 2e-6)

    def everywhere(self, call):
        """The call's results on every kernel and thread count, whose bits must be equal."""
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        seen = []
        for isa, count in (("reference", 1), ("auto", 1), ("auto", 2), ("auto", 3)):
            torch.set_num_threads(count)
            with isobit.enabled(isa):
                seen.append(call())
        for results in seen[1:]:
            for a, b in zip(seen[0], results, strict=True):
                self.assertTrue(torch.equal(a, b))
        return seen[0]

    def test_non_maximum_suppression(self):
        for threshold in (0.0, 0.3, 0.7, 1.0):
            kept, = self.everywhere(lambda threshold=threshold: [OPS.nms(BOXES, SCORES, threshold)])
            self.assertEqual(kept.tolist(), suppressed_plainly(BOXES.double(), SCORES, threshold))
        with isobit.enabled():
            self.assertEqual(OPS.nms(torch.empty(0, 4), torch.empty(0), 0.5).shape, (0,))
            nowhere = torch.tensor([[0.0, 0, 0, 0], [float("nan")] * 4, [0, 0, float("inf"), 1]])
            self.assertEqual(sorted(OPS.nms(nowhere, torch.ones(3), 0.5).tolist()), [0, 1, 2])

    def test_averages_over_boxes_and_their_gradients(self):
        for ratio, aligned in ((-1, True), (-1, False), (2, True), (3, False)):
            gradient = torch.sin(torch.arange(60 * 4 * 15)).reshape(60, 4, 3, 5)
            y, dx = self.everywhere(lambda ratio=ratio, aligned=aligned, gradient=gradient: [
                OPS.roi_align(IMAGES, ROIS, 0.5, 3, 5, ratio, aligned),
                OPS._roi_align_backward(gradient, ROIS, 0.5, 3, 5, 2, 4, 20, 24, ratio, aligned)])
            x = IMAGES.double().requires_grad_()
            exact = aligned_plainly(x, ROIS.double(), 0.5, 3, 5, ratio, aligned)
            exact.backward(gradient.double())
            # In float32 a place within rounding of the next sample's pixel may fall to its other side: continuous, so still near.
            self.assertLess((y - exact).abs().max().item(), 1e-4)
            self.assertLess((dx - x.grad).abs().max().item(), 1e-3)

    def test_deformable_convolution_and_its_gradients(self):
        for groups, offset_groups, masked in ((1, 1, True), (2, 2, True), (1, 4, False)):
            inputs = deformable_inputs(groups, offset_groups)
            if not masked:
                inputs[3] = torch.ones_like(inputs[3])
            gradient = torch.cos(torch.arange(2 * 6 * 16)).reshape(2, 6, 4, 4)
            numbers = (2, 2, 1, 1, 1, 1, groups, offset_groups, masked)
            y, *gradients = self.everywhere(lambda inputs=inputs, numbers=numbers, gradient=gradient: [
                OPS.deform_conv2d(*inputs, *numbers), *OPS._deform_conv2d_backward(gradient, *inputs, *numbers)])
            exact = [t.double().requires_grad_() for t in inputs]
            result = deformed_plainly(*exact, 2, 1, groups, offset_groups)
            result.backward(gradient.double())
            self.near(y, result.detach())
            for place, (ours, theirs) in enumerate(zip(gradients, exact, strict=True)):
                if place != 3 or masked:
                    self.near(ours, theirs.grad)

    def test_tensors_without_values_get_their_shapes_from_the_library(self):
        self.library.impl("nms", lambda boxes, scores, threshold: boxes.new_empty(5, dtype=torch.int64), "Meta")
        self.library.impl("roi_align", lambda x, rois, scale, h, w, ratio, aligned: x.new_empty(len(rois), x.shape[1], h, w), "Meta")
        with isobit.enabled():
            self.assertEqual(OPS.nms(BOXES.to("meta"), SCORES.to("meta"), 0.5).shape, (5,))
            shape = OPS.roi_align(IMAGES.to("meta"), ROIS.to("meta"), 0.5, 3, 5, 2, True)
            self.assertEqual((shape.device.type, shape.shape), ("meta", (60, 4, 3, 5)))
            with self.assertRaisesRegex(RuntimeError, "float32 on the CPU|dense"):
                OPS.roi_align(IMAGES, ROIS.to("meta"), 0.5, 3, 5, 2, True)  # values and none: no shapes
            self.assertEqual(OPS.nms(BOXES, SCORES, 0.3).tolist(), suppressed_plainly(BOXES.double(), SCORES, 0.3))

    def test_what_is_refused(self):
        with isobit.enabled():
            for boxes in (BOXES.double(), BOXES.half()):
                with self.assertRaisesRegex(isobit.RefusedError, "torchvision::nms .*float32"):
                    OPS.nms(boxes, SCORES.to(boxes.dtype), 0.5)
            for roi in ([2.0, 0, 0, 1, 1], [-1.0, 0, 0, 1, 1], [0, 0, float("nan"), 1, 1], [0, 0, 0, 1e9, 1]):
                with self.assertRaisesRegex(RuntimeError, "roi_align: a box"):
                    OPS.roi_align(IMAGES, torch.tensor([roi]), 1.0, 2, 2, -1, True)
            inputs = deformable_inputs(1, 1)
            with self.assertRaisesRegex(RuntimeError, "offsets of sizes"):
                OPS.deform_conv2d(*inputs, 1, 1, 1, 1, 1, 1, 1, 1, True)

    def test_a_library_that_is_loaded_later(self):
        self.library._destroy()
        expected = suppressed_plainly(BOXES.double(), SCORES, 0.3)
        with isobit.enabled():
            self.library = declare(SCHEMAS)
            self.assertEqual(OPS.nms(BOXES, SCORES, 0.3).tolist(), expected)
            self.library.impl("nms", lambda *arguments: torch.full((3,), 9.0), "CPU", allow_override=True)
            self.assertEqual(OPS.nms(BOXES, SCORES, 0.3).tolist(), expected)
        self.assertEqual(OPS.nms(BOXES, SCORES, 0.3).tolist(), [9, 9, 9])  # the library's own is back

    def test_one_of_the_same_name_that_takes_something_else(self):
        for late in (False, True):
            self.library._destroy()
            if not late:
                self.library = declare(["nms(Tensor dets, Tensor scores, int count) -> Tensor"])
            with isobit.enabled():
                if late:
                    self.library = declare(["nms(Tensor dets, Tensor scores, int count) -> Tensor"])
                with self.assertRaises(isobit.RefusedError):
                    OPS.nms(BOXES, SCORES, 3)


if __name__ == "__main__":
    unittest.main()
