"""torchaudio's models that are written in Python, narrow."""

from model_runs.entries import Case, add, integers, uniform


def _lengths(*lengths):
    import torch

    return torch.tensor(lengths)


def _model(make_model, inputs, loss=None):
    def make():
        import torchaudio.models

        return Case(make_model(torchaudio.models), inputs(), loss)

    return make


def _tacotron():
    import torchaudio.models

    model = torchaudio.models.Tacotron2(
        n_mels=8,
        n_symbol=20,
        symbol_embedding_dim=16,
        encoder_embedding_dim=16,
        encoder_n_convolution=1,
        decoder_rnn_dim=16,
        attention_rnn_dim=16,
        attention_hidden_dim=8,
        attention_location_n_filter=4,
        attention_location_kernel_size=5,
        prenet_dim=8,
        postnet_n_convolution=2,
        postnet_embedding_dim=16,
    )
    return Case(model, (integers(20, 2, 6), _lengths(6, 5), uniform(2, 8, 10), _lengths(10, 8)))


def _transducer():
    """RNN-T with the joint output's mean; the loss itself is a compiled kernel."""
    from torchaudio.models.rnnt import emformer_rnnt_model

    model = emformer_rnnt_model(
        input_dim=8,
        encoding_dim=16,
        num_symbols=10,
        segment_length=8,
        right_context_length=0,
        time_reduction_input_dim=8,
        time_reduction_stride=2,
        transformer_num_heads=2,
        transformer_ffn_dim=16,
        transformer_num_layers=1,
        transformer_dropout=0.0,
        transformer_activation="gelu",
        transformer_left_context_length=8,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=8,
        num_lstm_layers=1,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.0,
    )
    return Case(model, (uniform(2, 16, 8), _lengths(16, 16), integers(10, 2, 5), _lengths(5, 5)))


_WAV2VEC = dict(
    extractor_mode="group_norm",
    extractor_conv_layer_config=[(16, 10, 5), (16, 3, 2)],
    extractor_conv_bias=False,
    encoder_embed_dim=16,
    encoder_projection_dropout=0.0,
    encoder_pos_conv_kernel=8,
    encoder_pos_conv_groups=2,
    encoder_num_layers=2,
    encoder_num_heads=2,
    encoder_attention_dropout=0.0,
    encoder_ff_interm_features=24,
    encoder_ff_interm_dropout=0.0,
    encoder_dropout=0.0,
    encoder_layer_norm_first=False,
    encoder_layer_drop=0.0,
    aux_num_out=8,
)
for name, make in {
    "Conformer": _model(lambda m: m.Conformer(8, 2, 16, 1, 5), lambda: (uniform(2, 12, 8), _lengths(12, 10))),
    "Emformer": _model(
        lambda m: m.Emformer(8, 2, 16, 1, 4, left_context_length=4), lambda: (uniform(2, 12, 8), _lengths(12, 10))
    ),
    "ConvTasNet": _model(lambda m: m.ConvTasNet(2, 8, 16, 3, 8, 16, 2, 2), lambda: (uniform(2, 1, 400),)),
    "DeepSpeech": _model(lambda m: m.DeepSpeech(16, 32, 10), lambda: (uniform(2, 1, 20, 16),)),
    "Wav2Letter": _model(lambda m: m.Wav2Letter(10, "mfcc", 8), lambda: (uniform(2, 8, 200),)),
    "WaveRNN": _model(
        lambda m: m.WaveRNN(
            upsample_scales=[2, 2, 3],
            n_classes=8,
            hop_length=12,
            n_res_block=1,
            n_rnn=16,
            n_fc=16,
            kernel_size=3,
            n_freq=8,
            n_hidden=8,
            n_output=8,
        ),
        lambda: (uniform(1, 1, 72), uniform(1, 1, 8, 10)[..., :8]),
    ),
    "Tacotron2": _tacotron,
    "RNN-T over an Emformer": _transducer,
    "wav2vec 2.0": _model(lambda m: m.wav2vec2_model(**_WAV2VEC), lambda: (uniform(2, 800),)),
    "WavLM": _model(
        lambda m: m.wavlm_model(**{**_WAV2VEC, "encoder_num_buckets": 16, "encoder_max_distance": 40}), lambda: (uniform(2, 800),)
    ),
    "HDemucs": _model(lambda m: m.hdemucs_low(["voice", "rest"]), lambda: (uniform(1, 2, 8192),)),
    "SquimObjective": _model(
        lambda m: m.squim_objective_model(
            feat_dim=16, win_len=16, d_model=16, nhead=2, hidden_dim=16, num_blocks=1, rnn_type="LSTM", chunk_size=10
        ),
        lambda: (uniform(2, 800),),
    ),
}.items():
    add("torchaudio", name, make)
