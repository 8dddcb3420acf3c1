"""MONAI's networks, over images and volumes of 16 to 64 voxels a side."""

from model_runs.entries import Case, add, uniform


def _model(name, shape, options):
    def make():
        from monai.networks import nets

        return Case(getattr(nets, name)(**options), (uniform(*shape),))

    return make


def _dice():
    """A U-Net with MONAI's own loss."""
    import torch
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    labels = (uniform(2, 1, 32, 32) > 0).to(torch.float32)
    loss = DiceCELoss(sigmoid=True)
    return Case(UNet(2, 1, 1, (4, 8, 16), (2, 2)), (uniform(2, 1, 32, 32),), lambda output: loss(output, labels))


def _patches():
    """PatchDiscriminator returns the maps of all its layers."""
    from monai.networks.nets import PatchDiscriminator

    return Case(PatchDiscriminator(2, 8, 1, num_layers_d=2), (uniform(2, 1, 32, 32),))


def _diffusion():
    import torch
    from monai.networks.nets import DiffusionModelUNet

    model = DiffusionModelUNet(
        2, 1, 1, num_res_blocks=1, channels=(8, 16), attention_levels=(False, True), norm_num_groups=4, num_head_channels=8
    )
    return Case(model, (uniform(2, 1, 16, 16), torch.tensor([3, 7])))


_IN_OUT = dict(spatial_dims=2, in_channels=1, out_channels=2)
_IN_OUT_3D = dict(_IN_OUT, spatial_dims=3)
for name, kind, shape, options in (
    ("UNet", "UNet", (2, 1, 32, 32), dict(_IN_OUT, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)),
    ("UNet, volumes", "UNet", (1, 1, 16, 16, 16), dict(_IN_OUT_3D, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)),
    ("BasicUNet", "BasicUNet", (1, 1, 32, 32), dict(_IN_OUT, features=(4, 4, 8, 8, 16, 4))),
    ("BasicUNetPlusPlus", "BasicUNetPlusPlus", (1, 1, 32, 32), dict(_IN_OUT, features=(4, 4, 8, 8, 16, 4))),
    ("AttentionUnet", "AttentionUnet", (1, 1, 32, 32), dict(_IN_OUT, channels=(4, 8, 16), strides=(2, 2))),
    (
        "DynUNet",
        "DynUNet",
        (1, 1, 32, 32),
        dict(_IN_OUT, kernel_size=(3, 3, 3), strides=(1, 2, 2), upsample_kernel_size=(2, 2), filters=(4, 8, 16)),
    ),
    ("SegResNet", "SegResNet", (1, 1, 16, 16, 16), dict(_IN_OUT_3D, init_filters=8)),
    ("SegResNetDS", "SegResNetDS", (1, 1, 32, 32), dict(_IN_OUT, init_filters=8, blocks_down=(1, 1, 1))),
    ("VNet", "VNet", (2, 1, 32, 32, 32), dict(_IN_OUT_3D)),
    ("UNETR", "UNETR", (1, 1, 32, 32), dict(_IN_OUT, img_size=32, feature_size=4, hidden_size=24, mlp_dim=32, num_heads=2)),
    ("SwinUNETR", "SwinUNETR", (1, 1, 64, 64), dict(_IN_OUT, feature_size=12, depths=(1, 1, 1, 1), num_heads=(2, 2, 2, 2))),
    (
        "FlexibleUNet",
        "FlexibleUNet",
        (1, 3, 64, 64),
        dict(in_channels=3, out_channels=2, backbone="efficientnet-b0", decoder_channels=(16, 8, 8, 8, 8)),
    ),
    ("HighResNet", "HighResNet", (1, 1, 16, 16), dict(_IN_OUT)),
    ("AHNet", "AHNet", (1, 1, 64, 64), dict(spatial_dims=2, in_channels=1, out_channels=2, psp_block_num=0)),
    (
        "MedNeXt",
        "MedNeXt",
        (1, 1, 32, 32),
        dict(
            _IN_OUT,
            init_filters=4,
            encoder_expansion_ratio=(2, 2, 2),
            decoder_expansion_ratio=(2, 2, 2),
            bottleneck_expansion_ratio=2,
            blocks_down=(1, 1, 1),
            blocks_bottleneck=1,
            blocks_up=(1, 1, 1),
        ),
    ),
    ("DenseNet", "DenseNet", (2, 1, 32, 32), dict(_IN_OUT, init_features=8, growth_rate=4, block_config=(2, 2, 2, 2))),
    (
        "ResNet, volumes",
        "ResNet",
        (2, 1, 32, 32, 32),
        dict(block="basic", layers=(1, 1, 1, 1), block_inplanes=(4, 8, 16, 16), n_input_channels=1, num_classes=2),
    ),
    (
        "SENet",
        "SENet",
        (2, 3, 64, 64),
        dict(
            spatial_dims=2,
            in_channels=3,
            block="se_resnet_bottleneck",
            layers=(1, 1, 1, 1),
            groups=1,
            reduction=16,
            inplanes=64,
            input_3x3=False,
            downsample_kernel_size=1,
            num_classes=3,
        ),
    ),
    ("EfficientNetBN", "EfficientNetBN", (1, 3, 64, 64), dict(model_name="efficientnet-b0", pretrained=False, num_classes=4)),
    (
        "ViT",
        "ViT",
        (2, 1, 32, 32),
        dict(
            in_channels=1,
            img_size=(32, 32),
            patch_size=(8, 8),
            hidden_size=24,
            mlp_dim=32,
            num_layers=2,
            num_heads=2,
            spatial_dims=2,
            classification=True,
        ),
    ),
    (
        "ViTAutoEnc",
        "ViTAutoEnc",
        (1, 1, 32, 32),
        dict(
            in_channels=1,
            img_size=(32, 32),
            patch_size=(16, 16),
            out_channels=1,
            deconv_chns=4,
            hidden_size=24,
            mlp_dim=32,
            num_layers=2,
            num_heads=2,
            spatial_dims=2,
        ),
    ),
    ("AutoEncoder", "AutoEncoder", (2, 1, 32, 32), dict(_IN_OUT, channels=(4, 8), strides=(2, 2))),
    (
        "VarAutoEncoder",
        "VarAutoEncoder",
        (2, 1, 32, 32),
        dict(spatial_dims=2, in_shape=(1, 32, 32), out_channels=1, latent_size=4, channels=(4, 8), strides=(2, 2)),
    ),
    (
        "VQVAE",
        "VQVAE",
        (1, 1, 32, 32),
        dict(
            _IN_OUT,
            channels=(8, 8),
            num_res_channels=(8, 8),
            num_res_layers=1,
            downsample_parameters=((2, 4, 1, 1), (2, 4, 1, 1)),
            upsample_parameters=((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)),
            num_embeddings=16,
            embedding_dim=8,
        ),
    ),
    (
        "AutoencoderKL",
        "AutoencoderKL",
        (1, 1, 16, 16),
        dict(
            spatial_dims=2,
            in_channels=1,
            out_channels=1,
            num_res_blocks=(1, 1),
            channels=(8, 8),
            attention_levels=(False, True),
            latent_channels=4,
            norm_num_groups=4,
        ),
    ),
    ("Regressor", "Regressor", (2, 1, 16, 16), dict(in_shape=(1, 16, 16), out_shape=(2,), channels=(4, 8), strides=(2, 2))),
):
    add("monai", name, _model(kind, shape, options))
add("monai", "UNet with DiceCELoss", _dice)
add("monai", "PatchDiscriminator", _patches)
add("monai", "DiffusionModelUNet", _diffusion)
