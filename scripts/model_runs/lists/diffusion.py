"""diffusers' denoisers and autoencoders, made of one or two narrow blocks."""

from model_runs.entries import Case, add, integers, uniform


def _model(name, options, inputs):
    def make():
        import diffusers

        return Case(getattr(diffusers, name)(**options), inputs())

    return make


def _autoencoded(name, options, shape=(2, 3, 16, 16)):
    return _model(name, options, lambda: dict(sample=uniform(*shape)))


def _noise(channels=4, size=8, batch=2, **others):
    return lambda: dict(
        hidden_states=uniform(batch, channels, size, size),
        timestep=integers(900, batch),
        **{name: (value() if callable(value) else value) for name, value in others.items()},
    )


def _sample(shape, **others):
    return lambda: dict(
        sample=uniform(*shape), timestep=integers(900, shape[0]), **{name: value() for name, value in others.items()}
    )


_NARROW = dict(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4)
_CROSS = dict(
    _NARROW,
    sample_size=8,
    in_channels=4,
    out_channels=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=16,
    attention_head_dim=4,
)


def _words(*shape):
    return lambda: uniform(*shape)


def _controlled():
    import diffusers

    model = diffusers.ControlNetModel(
        in_channels=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=4,
        conditioning_embedding_out_channels=(8, 16),
    )
    return Case(
        model,
        dict(
            sample=uniform(2, 4, 8, 8),
            timestep=integers(900, 2),
            encoder_hidden_states=uniform(2, 5, 16),
            controlnet_cond=uniform(2, 3, 16, 16),
        ),
    )


def _flux():
    import diffusers
    import torch

    model = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )
    return Case(
        model,
        dict(
            hidden_states=uniform(1, 16, 4),
            encoder_hidden_states=uniform(1, 8, 32),
            pooled_projections=uniform(1, 32),
            timestep=torch.tensor([0.5]),
            img_ids=torch.zeros(16, 3),
            txt_ids=torch.zeros(8, 3),
        ),
    )


def _wan():
    import diffusers

    model = diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=16,
        ffn_dim=32,
        num_layers=1,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    return Case(
        model, dict(hidden_states=uniform(1, 4, 2, 8, 8), timestep=integers(900, 1), encoder_hidden_states=uniform(1, 6, 16))
    )


for name, make in {
    "UNet2DModel": _model(
        "UNet2DModel",
        dict(
            _NARROW,
            sample_size=16,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            attention_head_dim=4,
        ),
        _sample((2, 3, 16, 16)),
    ),
    "UNet1DModel": _model(
        "UNet1DModel",
        dict(
            sample_size=64,
            in_channels=2,
            out_channels=2,
            extra_in_channels=16,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("DownBlock1DNoSkip", "DownBlock1D"),
            up_block_types=("UpBlock1D", "UpBlock1DNoSkip"),
            norm_num_groups=4,
        ),
        _sample((1, 2, 64)),
    ),
    "UNet2DConditionModel": _model("UNet2DConditionModel", _CROSS, _sample((2, 4, 8, 8), encoder_hidden_states=_words(2, 5, 16))),
    "UNet3DConditionModel": _model(
        "UNet3DConditionModel",
        dict(
            _NARROW,
            sample_size=8,
            in_channels=4,
            out_channels=4,
            cross_attention_dim=16,
            attention_head_dim=4,
            down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
            up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        ),
        _sample((1, 4, 2, 8, 8), encoder_hidden_states=_words(1, 5, 16)),
    ),
    "ControlNetModel": _controlled,
    "FluxTransformer2DModel": _flux,
    "WanTransformer3DModel": _wan,
    "AutoencoderKL": _autoencoded(
        "AutoencoderKL",
        dict(_NARROW, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4),
    ),
    "AutoencoderTiny": _autoencoded(
        "AutoencoderTiny",
        dict(
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
        ),
    ),
    "VQModel": _autoencoded(
        "VQModel",
        dict(
            _NARROW,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=3,
            num_vq_embeddings=16,
        ),
    ),
    "AutoencoderKLTemporalDecoder": _model(
        "AutoencoderKLTemporalDecoder",
        dict(block_out_channels=(32, 32), layers_per_block=1, down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4),
        lambda: dict(sample=uniform(2, 3, 16, 16), num_frames=2),
    ),
    "AutoencoderKLWan": _autoencoded(
        "AutoencoderKLWan",
        dict(
            base_dim=4,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        (1, 3, 5, 16, 16),
    ),
    "AutoencoderOobleck": _autoencoded(
        "AutoencoderOobleck",
        dict(
            encoder_hidden_size=8,
            downsampling_ratios=[2, 4],
            decoder_channels=8,
            decoder_input_channels=4,
            audio_channels=1,
            channel_multiples=[1, 2],
        ),
        (1, 1, 64),
    ),
    "AutoencoderDC": _autoencoded(
        "AutoencoderDC",
        dict(
            in_channels=3,
            latent_channels=4,
            attention_head_dim=2,
            encoder_block_types=("ResBlock", "EfficientViTBlock"),
            decoder_block_types=("ResBlock", "EfficientViTBlock"),
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            encoder_layers_per_block=(1, 1),
            decoder_layers_per_block=(1, 1),
            encoder_qkv_multiscales=((), (5,)),
            decoder_qkv_multiscales=((), (5,)),
            upsample_block_type="interpolate",
            downsample_block_type="conv",
        ),
        (1, 3, 16, 16),
    ),
    "DiTTransformer2DModel": _model(
        "DiTTransformer2DModel",
        dict(
            sample_size=8,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=2,
            in_channels=4,
            out_channels=4,
            num_embeds_ada_norm=10,
            norm_num_groups=4,
        ),
        _noise(class_labels=lambda: integers(10, 2)),
    ),
    "SD3Transformer2DModel": _model(
        "SD3Transformer2DModel",
        dict(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=4,
            joint_attention_dim=32,
            caption_projection_dim=32,
            pooled_projection_dim=32,
            out_channels=4,
            pos_embed_max_size=16,
        ),
        _noise(encoder_hidden_states=_words(2, 5, 32), pooled_projections=_words(2, 32)),
    ),
    "PixArtTransformer2DModel": _model(
        "PixArtTransformer2DModel",
        dict(
            sample_size=8,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=2,
            in_channels=4,
            cross_attention_dim=16,
            caption_channels=8,
            out_channels=8,
            use_additional_conditions=False,
        ),
        _noise(encoder_hidden_states=_words(2, 5, 8), added_cond_kwargs={"resolution": None, "aspect_ratio": None}),
    ),
    "SanaTransformer2DModel": _model(
        "SanaTransformer2DModel",
        dict(
            sample_size=8,
            patch_size=1,
            in_channels=4,
            out_channels=4,
            num_layers=1,
            attention_head_dim=4,
            num_attention_heads=2,
            num_cross_attention_heads=2,
            cross_attention_head_dim=4,
            cross_attention_dim=8,
            caption_channels=8,
        ),
        _noise(encoder_hidden_states=_words(2, 5, 8)),
    ),
    "AuraFlowTransformer2DModel": _model(
        "AuraFlowTransformer2DModel",
        dict(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_mmdit_layers=1,
            num_single_dit_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=32,
            out_channels=4,
            pos_embed_max_size=256,
        ),
        lambda: dict(
            hidden_states=uniform(2, 4, 8, 8), timestep=uniform(2, low=0.0), encoder_hidden_states=uniform(2, 5, 32)
        ),
    ),
    "CogVideoXTransformer3DModel": _model(
        "CogVideoXTransformer3DModel",
        dict(
            num_attention_heads=4,
            attention_head_dim=8,
            in_channels=4,
            out_channels=4,
            time_embed_dim=2,
            text_embed_dim=8,
            num_layers=1,
            sample_width=8,
            sample_height=8,
            sample_frames=8,
            patch_size=2,
            max_text_seq_length=5,
        ),
        lambda: dict(hidden_states=uniform(1, 2, 4, 8, 8), timestep=integers(900, 1), encoder_hidden_states=uniform(1, 5, 8)),
    ),
}.items():
    add("diffusers", name, make)
