"""What the lists of transformers' models share: sizes, and how a model is made."""

from model_runs.entries import Case, integers, uniform

TEXT = dict(
    vocab_size=99,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=64,
    type_vocab_size=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
DECODER = dict(TEXT, num_key_value_heads=2, head_dim=8)
EXPERTS = dict(DECODER, num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
IMAGE = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, num_channels=3
)
STAGES = dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_stages=4, image_size=64)
BOTH = dict(
    vocab_size=99,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
SPEECH = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    conv_dim=(16, 16),
    conv_kernel=(10, 3),
    conv_stride=(5, 2),
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    vocab_size=20,
    mask_time_prob=0.0,
    apply_spec_augment=False,
    pad_token_id=0,
)


def made(configuration, model, options):
    import transformers

    config = getattr(transformers, configuration)(**options)
    if getattr(config, "pad_token_id", 0) is None:
        config.pad_token_id = 0
    return getattr(transformers, model)(config)


def causal(configuration, model, **options):
    return lambda: Case(made(configuration, model, options), words())


def words(labels=True):
    words = integers(99, 2, 10, low=3)
    return dict(input_ids=words, labels=words) if labels else dict(input_ids=words)


def sequence(configuration, model, inputs=None, **options):
    def make():
        given = inputs() if inputs else dict(input_ids=integers(99, 2, 8, low=3), labels=integers(99, 2, 6, low=3))
        return Case(made(configuration, model, options), given)

    return make


def image(configuration, model, size=32, labels=None, **options):
    def make():
        given = dict(pixel_values=uniform(2, 3, size, size))
        if labels:
            given["labels"] = labels()
        return Case(made(configuration, model, options), given)

    return make


def sound(configuration, model, inputs, **options):
    return lambda: Case(made(configuration, model, options), inputs())


def classes():
    return integers(2, 2)
