"""peft's ways to adapt a model: each over a small GPT-2, BERT or Llama of transformers."""

from model_runs.entries import Case, add, integers


def _llama():
    import transformers

    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            intermediate_size=48,
            max_position_embeddings=64,
            pad_token_id=0,
        )
    )


def _adapted(configuration, options):
    def make():
        import peft

        model = peft.get_peft_model(_llama(), getattr(peft, configuration)(task_type="CAUSAL_LM", **options))
        words = integers(99, 2, 10, low=3)
        return Case(model, dict(input_ids=words, labels=words))

    return make


_PLACES = dict(target_modules=["q_proj", "v_proj"])
for name, configuration, options in (
    ("LoRA", "LoraConfig", dict(_PLACES, r=4, lora_dropout=0.1)),
    ("LoRA, rank-stabilised", "LoraConfig", dict(_PLACES, r=4, use_rslora=True)),
    ("DoRA", "LoraConfig", dict(_PLACES, r=4, use_dora=True)),
    ("AdaLoRA", "AdaLoraConfig", dict(_PLACES, init_r=4, target_r=2, total_step=10)),
    ("LoHa", "LoHaConfig", dict(_PLACES, r=4)),
    ("LoKr", "LoKrConfig", dict(_PLACES, r=4)),
    ("IA3", "IA3Config", dict(_PLACES, feedforward_modules=[])),
    ("OFT", "OFTConfig", dict(_PLACES, r=4, oft_block_size=0)),
    ("BOFT", "BOFTConfig", dict(_PLACES, boft_block_size=4)),
    ("VeRA", "VeraConfig", dict(_PLACES, r=4)),
    ("HRA", "HRAConfig", dict(_PLACES, r=4)),
    ("VB-LoRA", "VBLoRAConfig", dict(_PLACES, r=2, num_vectors=16, vector_length=16, topk=2)),
    ("FourierFT", "FourierFTConfig", dict(_PLACES, n_frequency=16)),
    ("LN tuning", "LNTuningConfig", dict(target_modules=["input_layernorm"])),
    ("prompt tuning", "PromptTuningConfig", dict(num_virtual_tokens=4)),
    ("prefix tuning", "PrefixTuningConfig", dict(num_virtual_tokens=4)),
    ("P-tuning", "PromptEncoderConfig", dict(num_virtual_tokens=4, encoder_hidden_size=16)),
    ("RandLoRA", "RandLoraConfig", dict(_PLACES, r=4)),
    ("trainable tokens", "TrainableTokensConfig", dict(token_indices=[4, 7], target_modules=["embed_tokens"])),
):
    add("peft", name, _adapted(configuration, options))
