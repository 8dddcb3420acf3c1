"""torchvision's models: its smallest variants, or their classes with fewer blocks and channels; images of 32 to 96 pixels."""

from model_runs.entries import Case, add, image, uniform


def _named(name, size=64, **options):
    """A model by its function's name."""

    def make():
        import torchvision

        return Case(torchvision.models.get_model(name, weights=None, **{"num_classes": 10, **options}), image(size))

    return make


def _segmentation(name, **options):
    def make():
        import torchvision

        return Case(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=4, **options), image(64))

    return make


def _detection(name, **options):
    """In training these return their losses."""

    def make():
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=4, **options)
        images = [uniform(3, 96, 96, low=0.0), uniform(3, 96, 80, low=0.0)]
        boxes = torch.tensor([[8.0, 8.0, 56.0, 60.0], [20.0, 30.0, 70.0, 76.0]])
        targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
        return Case(model, (images, targets), lambda losses: sum(losses.values()))

    return make


def _resnet(block, **options):
    def make():
        from torchvision.models import resnet

        return Case(resnet.ResNet(getattr(resnet, block), [1, 1, 1, 1], num_classes=10, **options), image(64))

    return make


def _vgg(norm):
    def make():
        import torch
        from torchvision.models import vgg

        layers = vgg.make_layers([8, "M", 16, "M", 16, 16, "M", 32, 32, "M", 512, "M"], batch_norm=norm)
        model = vgg.VGG(layers, num_classes=10)
        model.classifier = torch.nn.Linear(512 * 49, 10)  # instead of three layers with 10^8 weights
        return Case(model, image(32))

    return make


def _alexnet():
    import torch
    import torchvision

    model = torchvision.models.alexnet(weights=None, num_classes=10)
    model.classifier = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(256 * 36, 10))
    return Case(model, image(64))


def _densenet():
    from torchvision.models import DenseNet

    return Case(DenseNet(8, (2, 2, 2, 2), 16, num_classes=10), image(64))


def _convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 64, 2), CNBlockConfig(64, None, 1)]
    return Case(ConvNeXt(blocks, stochastic_depth_prob=0.1, num_classes=10), image(64))


def _vit():
    from torchvision.models import VisionTransformer

    return Case(VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10), image(32))


def _swin(name):
    def make():
        from torchvision.models import swin_transformer as swin

        block = {} if name == "v1" else dict(block=swin.SwinTransformerBlockV2, downsample_layer=swin.PatchMergingV2)
        return Case(
            swin.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.1, num_classes=10, **block),
            image(64),
        )

    return make


def _swin3d():
    from torchvision.models.video import SwinTransformer3d

    return Case(SwinTransformer3d([2, 4, 4], 16, [2, 2], [2, 2], [2, 7, 7], num_classes=10), (uniform(1, 3, 4, 64, 64),))


def _maxvit():
    from torchvision.models import MaxVit

    return Case(MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.1, num_classes=10), image(64))


def _mvit():
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    blocks = [
        MSBlockConfig(1, 16, 16, [3, 3, 3], [1, 4, 4], [], []),
        MSBlockConfig(2, 16, 32, [3, 3, 3], [1, 2, 2], [3, 3, 3], [1, 2, 2]),
    ]
    return Case(MViT((32, 32), 4, blocks, False, True, True, True, num_classes=10), (uniform(1, 3, 4, 32, 32),))


def _video(name):
    def make():
        from torchvision.models import video

        stem = {
            "r3d": (video.resnet.BasicStem, video.resnet.Conv3DSimple),
            "mc3": (video.resnet.BasicStem, video.resnet.Conv3DNoTemporal),
            "r2plus1d": (video.resnet.R2Plus1dStem, video.resnet.Conv2Plus1D),
        }[name]
        model = video.resnet.VideoResNet(video.resnet.BasicBlock, [stem[1]] * 4, [1, 1, 1, 1], stem[0], num_classes=10)
        return Case(model, (uniform(1, 3, 4, 32, 32),))

    return make


def _s3d():
    import torchvision

    return Case(torchvision.models.video.s3d(weights=None, num_classes=10), (uniform(1, 3, 14, 64, 64),))


def _raft():
    from torchvision.models.optical_flow import raft_small

    return Case(raft_small(), (uniform(1, 3, 128, 128), uniform(1, 3, 128, 128, low=-0.5), 2))


def _inception():
    import torchvision

    return Case(torchvision.models.inception_v3(weights=None, num_classes=10, init_weights=False, aux_logits=False), image(96))


def _googlenet():
    import torchvision

    return Case(torchvision.models.googlenet(weights=None, num_classes=10, aux_logits=False, init_weights=True), image(64))


for name, make in {
    "alexnet": _alexnet,
    "vgg": _vgg(False),
    "vgg_bn": _vgg(True),
    "resnet18": _named("resnet18"),
    "resnet (bottleneck)": _resnet("Bottleneck"),
    "resnext": _resnet("Bottleneck", groups=4, width_per_group=16),
    "wide_resnet": _resnet("BasicBlock"),
    "densenet": _densenet,
    "squeezenet1_0": _named("squeezenet1_0"),
    "squeezenet1_1": _named("squeezenet1_1"),
    "googlenet": _googlenet,
    "inception_v3": _inception,
    "mobilenet_v2": _named("mobilenet_v2", width_mult=0.5),
    "mobilenet_v3_small": _named("mobilenet_v3_small"),
    "mobilenet_v3_large": _named("mobilenet_v3_large"),
    "mnasnet0_5": _named("mnasnet0_5"),
    "shufflenet_v2_x0_5": _named("shufflenet_v2_x0_5"),
    "efficientnet_b0": _named("efficientnet_b0"),
    "efficientnet_v2_s": _named("efficientnet_v2_s"),
    "regnet_x_400mf": _named("regnet_x_400mf"),
    "regnet_y_400mf": _named("regnet_y_400mf"),
    "convnext": _convnext,
    "vit": _vit,
    "swin": _swin("v1"),
    "swin_v2": _swin("v2"),
    "maxvit": _maxvit,
    "swin3d": _swin3d,
    "mvit": _mvit,
    "r3d_18": _video("r3d"),
    "mc3_18": _video("mc3"),
    "r2plus1d_18": _video("r2plus1d"),
    "s3d": _s3d,
    "fcn_resnet50": _segmentation("fcn_resnet50"),
    "deeplabv3_mobilenet_v3_large": _segmentation("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3_large": _segmentation("lraspp_mobilenet_v3_large"),
    "ssdlite320_mobilenet_v3_large": _detection("ssdlite320_mobilenet_v3_large"),
    "retinanet_resnet50_fpn": _detection("retinanet_resnet50_fpn", min_size=96, max_size=96),
    "fcos_resnet50_fpn": _detection("fcos_resnet50_fpn", min_size=96, max_size=96),
    "fasterrcnn_mobilenet_v3_large_320_fpn": _detection("fasterrcnn_mobilenet_v3_large_320_fpn", min_size=96, max_size=96),
    "raft_small": _raft,
}.items():
    add("torchvision", name, make)
