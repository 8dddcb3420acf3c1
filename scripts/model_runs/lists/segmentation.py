"""segmentation_models_pytorch: each decoder over a small encoder, images of 64 pixels."""

from model_runs.entries import Case, add, image


def _model(name, encoder, options):
    def make():
        import segmentation_models_pytorch

        model = getattr(segmentation_models_pytorch, name)(encoder_name=encoder, encoder_weights=None, classes=3, **options)
        return Case(model, image(64))

    return make


_NARROW = dict(decoder_channels=(32, 16, 16, 8, 8))
for name, encoder, options in (
    ("Unet", "resnet18", _NARROW),
    ("Unet", "mobilenet_v2", _NARROW),
    ("Unet", "efficientnet-b0", _NARROW),
    ("Unet", "mit_b0", _NARROW),
    ("Unet", "vgg11_bn", _NARROW),
    ("Unet", "timm-regnetx_002", _NARROW),
    ("UnetPlusPlus", "resnet18", _NARROW),
    ("MAnet", "resnet18", _NARROW),
    ("Linknet", "resnet18", {}),
    ("FPN", "resnet18", dict(decoder_pyramid_channels=32, decoder_segmentation_channels=32)),
    ("PSPNet", "resnet18", dict(psp_out_channels=32)),
    ("PAN", "resnet18", dict(decoder_channels=16)),
    ("DeepLabV3", "resnet18", dict(decoder_channels=16)),
    ("DeepLabV3Plus", "resnet18", dict(decoder_channels=16)),
    ("UPerNet", "resnet18", dict(decoder_channels=16)),
    ("Segformer", "mit_b0", dict(decoder_segmentation_channels=16)),
):
    add("segmentation_models_pytorch", f"{name}, {encoder}", _model(name, encoder, options))
