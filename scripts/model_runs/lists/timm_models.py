"""timm's models: one of each family, small by name or by configuration."""

from model_runs.entries import Case, add, image


def _model(name, size, options):
    def make():
        import timm

        return Case(timm.create_model(name, pretrained=False, num_classes=10, **options), image(size))

    return make


def _built(module, name, size, options):
    """By its class: the named function fixes the size."""

    def make():
        import importlib

        built = getattr(importlib.import_module(f"timm.models.{module}"), name)
        return Case(built(num_classes=10, **options(importlib.import_module(f"timm.models.{module}"))), image(size))

    return make


_MIXER = dict(img_size=32, patch_size=8, embed_dim=32, num_blocks=2)


_VIT = dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2)
_SWIN = dict(img_size=64, window_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 2))
_STAGES = dict(depths=(1, 1, 1, 1), dims=(8, 16, 32, 64))

# name: (pixels, configuration)
_MODELS = {
    "resnet10t": (64, {}),
    "resnet14t": (64, {}),
    "resnet26d": (64, dict(layers=[1, 1, 1, 1])),
    "seresnet18": (64, {}),
    "ecaresnet26t": (64, dict(layers=[1, 1, 1, 1])),
    "skresnet18": (64, {}),
    "resnest14d": (64, {}),
    "resnetv2_18": (64, {}),
    "resnext50_32x4d": (64, dict(layers=[1, 1, 1, 1])),
    "res2net50_14w_8s": (64, dict(layers=[1, 1, 1, 1])),
    "resnetblur18": (64, {}),
    "gernet_s": (64, {}),
    "regnetx_002": (64, {}),
    "regnety_002": (64, {}),
    "repvgg_a0": (64, {}),
    "mobileone_s0": (64, {}),
    "densenet121": (64, dict(growth_rate=8, block_config=(2, 2, 2, 2))),
    "dla34": (64, {}),
    "vgg11_bn": (32, {}),
    "cspdarknet53": (64, {}),
    "hardcorenas_a": (64, {}),
    "efficientnet_lite0": (64, {}),
    "tf_efficientnetv2_b0": (64, {}),
    "mixnet_s": (64, {}),
    "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small": (64, {}),
    "mnasnet_small": (64, {}),
    "tinynet_e": (64, {}),
    "lcnet_050": (64, {}),
    "ghostnet_050": (64, {}),
    "ghostnetv2_100": (64, {}),
    "fbnetc_100": (64, {}),
    "spnasnet_100": (64, {}),
    "rexnet_100": (64, {}),
    "hrnet_w18_small": (64, {}),
    "selecsls42": (64, {}),
    "inception_v4": (96, {}),
    "xception41": (64, {}),
    "dpn48b": (64, {}),
    "nf_regnet_b0": (64, {}),
    "eca_nfnet_l0": (64, {}),
    "convnext_atto": (64, _STAGES),
    "convnextv2_atto": (64, _STAGES),
    "edgenext_xx_small": (64, {}),
    "inception_next_tiny": (64, dict(depths=(1, 1, 1, 1), dims=(8, 16, 32, 64))),
    "starnet_s1": (64, {}),
    "fasternet_t0": (64, {}),
    "repvit_m0_9": (64, {}),
    "repghostnet_050": (64, {}),
    "vit_tiny_patch16_224": (32, _VIT),
    "deit_tiny_patch16_224": (32, _VIT),
    "beit_base_patch16_224": (32, _VIT),
    "eva02_tiny_patch14_224": (32, _VIT),
    "vit_relpos_small_patch16_224": (32, _VIT),
    "cait_xxs24_224": (32, dict(_VIT, depth_token_only=1)),
    "xcit_nano_12_p16_224": (32, dict(_VIT, patch_size=16)),
    "swin_tiny_patch4_window7_224": (64, _SWIN),
    "swinv2_tiny_window8_256": (64, _SWIN),
    "pit_ti_224": (64, dict(img_size=64)),
    "levit_128s": (64, dict(img_size=64)),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "coat_lite_tiny": (64, dict(img_size=64)),
    "convit_tiny": (32, dict(_VIT, local_up_to_layer=1)),
    "crossvit_tiny_240": (240, dict(depth=((1, 1, 0), (1, 1, 0), (1, 1, 0)))),
    "visformer_tiny": (64, dict(img_size=64)),
    "twins_pcpvt_small": (64, dict(img_size=64, depths=[1, 1, 1, 1])),
    "pvt_v2_b0": (64, {}),
    "poolformer_s12": (64, {}),
    "efficientformer_l1": (224, {}),
    "efficientformerv2_s0": (64, dict(img_size=64)),
    "fastvit_t8": (64, {}),
    "hiera_tiny_224": (64, dict(img_size=(64, 64), embed_dim=16, stages=(1, 1, 1, 1), num_heads=1)),
    "maxvit_pico_rw_256": (64, dict(img_size=64)),
    "coatnet_pico_rw_224": (64, dict(img_size=64)),
    "gcvit_xxtiny": (64, dict(img_size=64)),
    "davit_tiny": (64, dict(depths=(1, 1, 1, 1), embed_dims=(16, 32, 64, 64), num_heads=(2, 2, 2, 2), num_groups=None)),
    "tiny_vit_5m_224": (64, {}),
    "efficientvit_b0": (64, {}),
    "efficientvit_m0": (64, dict(img_size=64)),
    "nest_tiny": (64, dict(img_size=64)),
    "sequencer2d_s": (64, dict(img_size=64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), hidden_sizes=(4, 8, 8, 8))),
    "lambda_resnet26t": (64, {}),
    "halonet26t": (256, {}),
    "botnet26t_256": (64, dict(img_size=64)),
    "mambaout_femto": (64, {}),
    "swiftformer_xs": (64, {}),
    "shvit_s1": (64, {}),
    "rdnet_tiny": (64, {}),
    "naflexvit_base_patch16_gap": (32, {}),
    "hgnetv2_b0": (64, {}),
    "vitamin_small_224": (64, dict(img_size=64)),
    "nextvit_small": (64, {}),
    "csatv2": (64, {}),
}
# name: (module, class, pixels, configuration of the module)
_CLASSES = {
    "convmixer": ("convmixer", "ConvMixer", 32, lambda _: dict(dim=32, depth=2, kernel_size=3, patch_size=4)),
    "volo": (
        "volo",
        "VOLO",
        64,
        lambda _: dict(img_size=64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2)),
    ),
    "focalnet": ("focalnet", "FocalNet", 64, lambda _: dict(depths=(1, 1, 1, 1), embed_dim=16)),
    "mixer": ("mlp_mixer", "MlpMixer", 32, lambda _: _MIXER),
    "gmlp": (
        "mlp_mixer",
        "MlpMixer",
        32,
        lambda m: dict(_MIXER, mlp_ratio=6, block_layer=m.SpatialGatingBlock, mlp_layer=m.GatedMlp),
    ),
    "resmlp": ("mlp_mixer", "MlpMixer", 32, lambda m: dict(_MIXER, mlp_ratio=4, block_layer=m.ResBlock, norm_layer=m.Affine)),
}
for name, (size, options) in _MODELS.items():
    add("timm", name, _model(name, size, options))
for name, (module, built, size, options) in _CLASSES.items():
    add("timm", name, _built(module, built, size, options))
