"""transformers' models of images, sound, several kinds of input and time series, by configuration."""

from model_runs.entries import Case, add, integers, uniform
from model_runs.lists.transformers_common import BOTH, DECODER, IMAGE, SPEECH, STAGES, TEXT, classes, image, made, sound

_IMAGES = {
    "vit": ("ViTConfig", "ViTForImageClassification", 32, IMAGE),
    "deit": ("DeiTConfig", "DeiTForImageClassification", 32, IMAGE),
    "beit": ("BeitConfig", "BeitForImageClassification", 32, IMAGE),
    "data2vec (vision)": ("Data2VecVisionConfig", "Data2VecVisionForImageClassification", 32, IMAGE),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", 32, IMAGE),
    "dinov3_vit": ("DINOv3ViTConfig", "DINOv3ViTModel", 32, IMAGE),
    "vit_msn": ("ViTMSNConfig", "ViTMSNForImageClassification", 32, IMAGE),
    "swin": (
        "SwinConfig",
        "SwinForImageClassification",
        32,
        dict(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4),
    ),
    "swinv2": (
        "Swinv2Config",
        "Swinv2ForImageClassification",
        32,
        dict(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4),
    ),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification", 64, STAGES),
    "convnextv2": ("ConvNextV2Config", "ConvNextV2ForImageClassification", 64, STAGES),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        64,
        dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    ),
    "regnet": (
        "RegNetConfig",
        "RegNetForImageClassification",
        64,
        dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], groups_width=8),
    ),
    "bit": (
        "BitConfig",
        "BitForImageClassification",
        64,
        dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_groups=2),
    ),
    "mobilenet_v1": ("MobileNetV1Config", "MobileNetV1ForImageClassification", 64, dict(depth_multiplier=0.25, image_size=64)),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2ForImageClassification", 64, dict(depth_multiplier=0.25, image_size=64)),
    "mobilevit": (
        "MobileViTConfig",
        "MobileViTForImageClassification",
        64,
        dict(image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16], num_attention_heads=2),
    ),
    "poolformer": (
        "PoolFormerConfig",
        "PoolFormerForImageClassification",
        64,
        dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    ),
    "pvt": (
        "PvtConfig",
        "PvtForImageClassification",
        64,
        dict(image_size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2]),
    ),
    "pvt_v2": (
        "PvtV2Config",
        "PvtV2ForImageClassification",
        64,
        dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2]),
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerForImageClassification",
        64,
        dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2]),
    ),
    "efficientnet": (
        "EfficientNetConfig",
        "EfficientNetForImageClassification",
        64,
        dict(width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320, image_size=64),
    ),
    "focalnet": (
        "FocalNetConfig",
        "FocalNetForImageClassification",
        32,
        dict(image_size=32, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]),
    ),
    "hiera": (
        "HieraConfig",
        "HieraForImageClassification",
        64,
        dict(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1]),
    ),
    "cvt": ("CvtConfig", "CvtForImageClassification", 64, dict(embed_dim=[16, 32, 48], num_heads=[1, 2, 3], depth=[1, 1, 1])),
    "levit": (
        "LevitConfig",
        "LevitForImageClassification",
        64,
        dict(image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]),
    ),
    "vit_mae": (
        "ViTMAEConfig",
        "ViTMAEForPreTraining",
        32,
        dict(
            IMAGE,
            decoder_hidden_size=16,
            decoder_num_attention_heads=2,
            decoder_num_hidden_layers=1,
            decoder_intermediate_size=32,
        ),
    ),
    "dpt": (
        "DPTConfig",
        "DPTForDepthEstimation",
        32,
        dict(
            IMAGE, backbone_out_indices=[0, 1, 1, 1], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, num_hidden_layers=2
        ),
    ),
    "glpn": (
        "GLPNConfig",
        "GLPNForDepthEstimation",
        64,
        dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=8),
    ),
    "swin2sr": (
        "Swin2SRConfig",
        "Swin2SRForImageSuperResolution",
        32,
        dict(image_size=32, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, upscale=2),
    ),
    "yolos": ("YolosConfig", "YolosForObjectDetection", 32, dict(IMAGE, image_size=[32, 32], num_detection_tokens=4)),
    "detr": (
        "DetrConfig",
        "DetrForObjectDetection",
        64,
        dict(
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_queries=5,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
        ),
    ),
}
for name, (configuration, model, size, options) in _IMAGES.items():
    add("transformers", name, image(configuration, model, size, **options))




# ---- sound, several kinds of input, time series


def _clip():
    import transformers

    text = dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    config = transformers.CLIPConfig(text_config=text, vision_config=IMAGE, projection_dim=16)
    return Case(
        transformers.CLIPModel(config),
        dict(input_ids=integers(99, 2, 10, low=3), pixel_values=uniform(2, 3, 32, 32), return_loss=True),
    )


def _siglip():
    import transformers

    text = dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    config = transformers.SiglipConfig(text_config=text, vision_config=IMAGE)
    return Case(
        transformers.SiglipModel(config),
        dict(input_ids=integers(99, 2, 10, low=3), pixel_values=uniform(2, 3, 32, 32), return_loss=True),
    )


def _blip():
    import transformers

    text = dict(
        vocab_size=99,
        hidden_size=32,
        encoder_hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        bos_token_id=1,
        pad_token_id=0,
        eos_token_id=2,
        sep_token_id=2,
    )
    words = integers(99, 2, 10, low=3)
    return Case(
        transformers.BlipForConditionalGeneration(transformers.BlipConfig(text_config=text, vision_config=IMAGE)),
        dict(input_ids=words, pixel_values=uniform(2, 3, 32, 32), labels=words),
    )


def _llava():
    import torch
    import transformers

    vision = transformers.CLIPVisionConfig(**IMAGE)
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=transformers.LlamaConfig(**DECODER), image_token_id=98, vision_feature_layer=-1
    )
    words = torch.cat([torch.full((2, 16), 98), integers(90, 2, 6, low=3)], 1)
    return Case(
        transformers.LlavaForConditionalGeneration(config),
        dict(input_ids=words, pixel_values=uniform(2, 3, 32, 32), labels=words),
    )


def _vilt():
    words = integers(99, 2, 8, low=3)
    return Case(
        made("ViltConfig", "ViltForImagesAndTextClassification", dict(TEXT, image_size=32, patch_size=8, num_images=1)),
        dict(input_ids=words, pixel_values=uniform(2, 1, 3, 32, 32), labels=classes()),
    )


def _whisper():
    config = dict(
        BOTH, num_mel_bins=16, max_source_positions=20, max_target_positions=16, suppress_tokens=None, begin_suppress_tokens=None
    )
    return Case(
        made("WhisperConfig", "WhisperForConditionalGeneration", config),
        dict(input_features=uniform(2, 16, 40), labels=integers(99, 2, 6, low=3)),
    )


def _time_series(configuration, model, **options):
    def make():
        import torch

        given = dict(
            past_values=uniform(2, 19, low=0.1),
            past_time_features=uniform(2, 19, 1),
            past_observed_mask=torch.ones(2, 19),
            future_values=uniform(2, 4, low=0.1),
            future_time_features=uniform(2, 4, 1),
        )
        return Case(
            made(
                configuration,
                model,
                dict(
                    prediction_length=4,
                    context_length=12,
                    lags_sequence=[1, 3, 7],
                    num_time_features=1,
                    d_model=16,
                    encoder_layers=1,
                    decoder_layers=1,
                    encoder_attention_heads=2,
                    decoder_attention_heads=2,
                    encoder_ffn_dim=16,
                    decoder_ffn_dim=16,
                    **options,
                ),
            ),
            given,
        )

    return make


def _autoformer():
    return _time_series("AutoformerConfig", "AutoformerForPrediction", label_length=4, moving_average=3)()


def _patches(configuration, model, **options):
    return lambda: Case(
        made(
            configuration,
            model,
            dict(
                context_length=32,
                patch_length=8,
                patch_stride=8,
                num_input_channels=2,
                prediction_length=8,
                d_model=16,
                num_hidden_layers=1,
                num_layers=1,
                num_attention_heads=2,
                ffn_dim=32,
                **options,
            ),
        ),
        dict(past_values=uniform(2, 32, 2), future_values=uniform(2, 8, 2)),
    )


def _decision():
    import torch

    model = made(
        "DecisionTransformerConfig",
        "DecisionTransformerModel",
        dict(state_dim=4, act_dim=2, hidden_size=32, n_layer=2, n_head=4, max_ep_len=20),
    )
    return Case(
        model,
        dict(
            states=uniform(2, 5, 4),
            actions=uniform(2, 5, 2),
            rewards=uniform(2, 5, 1),
            returns_to_go=uniform(2, 5, 1),
            timesteps=torch.arange(5).repeat(2, 1),
            attention_mask=torch.ones(2, 5),
        ),
    )


def _segments():
    return Case(
        made(
            "SegformerConfig",
            "SegformerForSemanticSegmentation",
            dict(
                hidden_sizes=[8, 16, 16, 32],
                depths=[1, 1, 1, 1],
                num_attention_heads=[1, 2, 2, 2],
                decoder_hidden_size=16,
                num_labels=4,
            ),
        ),
        dict(pixel_values=uniform(2, 3, 64, 64), labels=integers(4, 2, 64, 64)),
    )


def _video(configuration, model, **options):
    return lambda: Case(
        made(configuration, model, dict(IMAGE, num_frames=4, tubelet_size=2, **options)),
        dict(pixel_values=uniform(1, 4, 3, 32, 32)),
    )


def _perceiver():
    return Case(
        made(
            "PerceiverConfig",
            "PerceiverForImageClassificationLearned",
            dict(
                num_latents=8,
                d_latents=16,
                d_model=24,
                num_blocks=1,
                num_self_attends_per_block=1,
                num_self_attention_heads=2,
                num_cross_attention_heads=1,
                image_size=16,
            ),
        ),
        dict(inputs=uniform(2, 3, 16, 16)),
    )


def _wave():
    return dict(input_values=uniform(2, 800), labels=integers(20, 2, 5, low=1))


for name, make in {
    "clip": _clip,
    "siglip": _siglip,
    "blip": _blip,
    "llava": _llava,
    "vilt": _vilt,
    "whisper": _whisper,
    "wav2vec2": sound("Wav2Vec2Config", "Wav2Vec2ForCTC", _wave, **SPEECH),
    "hubert": sound("HubertConfig", "HubertForCTC", _wave, **SPEECH),
    "wavlm": sound("WavLMConfig", "WavLMForCTC", _wave, **SPEECH),
    "sew": sound("SEWConfig", "SEWForCTC", _wave, **dict(SPEECH, squeeze_factor=2)),
    "unispeech": sound("UniSpeechConfig", "UniSpeechForCTC", _wave, **SPEECH),
    "audio_spectrogram_transformer": sound(
        "ASTConfig",
        "ASTForAudioClassification",
        lambda: dict(input_values=uniform(2, 24, 16)),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_length=24,
        num_mel_bins=16,
        patch_size=4,
        frequency_stride=4,
        time_stride=4,
    ),
    "speech_to_text": sound(
        "Speech2TextConfig",
        "Speech2TextForConditionalGeneration",
        lambda: dict(input_features=uniform(2, 40, 16), labels=integers(99, 2, 6, low=3)),
        **dict(BOTH, input_feat_per_channel=16, conv_channels=32, max_source_positions=40, max_target_positions=16),
    ),
    "encodec": sound(
        "EncodecConfig",
        "EncodecModel",
        lambda: dict(input_values=uniform(1, 1, 640)),
        num_filters=4,
        hidden_size=16,
        codebook_size=16,
        codebook_dim=16,
        upsampling_ratios=[4, 2],
        target_bandwidths=[1.5],
        num_lstm_layers=1,
    ),
    "time_series_transformer": _time_series("TimeSeriesTransformerConfig", "TimeSeriesTransformerForPrediction"),
    "informer": _time_series("InformerConfig", "InformerForPrediction"),
    "autoformer": _autoformer,
    "patchtst": _patches("PatchTSTConfig", "PatchTSTForPrediction"),
    "patchtsmixer": _patches("PatchTSMixerConfig", "PatchTSMixerForPrediction"),
    "decision_transformer": _decision,
    "segformer, segmentation": _segments,
    "videomae": _video("VideoMAEConfig", "VideoMAEForVideoClassification"),
    "timesformer": _video("TimesformerConfig", "TimesformerForVideoClassification"),
    "perceiver": _perceiver,
    "vivit": sound(
        "VivitConfig",
        "VivitForVideoClassification",
        lambda: dict(pixel_values=uniform(1, 4, 3, 32, 32)),
        **dict(IMAGE, num_frames=4, tubelet_size=[2, 8, 8]),
    ),
}.items():
    add("transformers", name, make)
