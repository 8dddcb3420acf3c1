"""braindecode's models: recordings of 8 to 22 channels, 2 to 4 seconds."""

from model_runs.entries import Case, add, uniform


def _model(name, channels, times, rate, options):
    def make():
        from braindecode import models

        # Some place a sensor by its position.
        given = dict(n_chans=channels, n_outputs=3, n_times=times, sfreq=rate, **options)
        return Case(getattr(models, name)(**given), (uniform(2, channels, times),))

    return make


for name, channels, times, rate, options in (
    ("ShallowFBCSPNet", 8, 400, 100, {}),
    ("Deep4Net", 8, 600, 100, {}),
    ("HybridNet", 8, 600, 100, {}),
    ("EEGNet", 8, 256, 128, {}),
    ("EEGConformer", 8, 500, 125, {}),
    ("ATCNet", 8, 500, 125, {}),
    ("EEGTCNet", 8, 500, 125, {}),
    ("EEGITNet", 8, 500, 125, {}),
    ("EEGInceptionERP", 8, 256, 128, {}),
    ("EEGInceptionMI", 8, 500, 125, {}),
    ("EEGNeX", 8, 256, 128, {}),
    ("EEGSimpleConv", 8, 256, 80, {}),
    ("FBCNet", 8, 500, 250, {}),
    ("FBMSNet", 8, 500, 250, {}),
    ("FBLightConvNet", 8, 500, 250, {}),
    ("IFNet", 8, 500, 250, {}),
    ("CTNet", 8, 500, 125, {}),
    ("MSVTNet", 8, 500, 125, {}),
    ("SCCNet", 8, 500, 125, {}),
    ("TIDNet", 8, 300, 100, {}),
    ("TSception", 8, 512, 128, {}),
    ("SyncNet", 8, 256, 128, {}),
    ("SPARCNet", 8, 500, 125, {}),
    ("ContraWR", 8, 500, 125, {}),
    ("BIOT", 8, 800, 200, {}),
    ("Labram", 8, 800, 200, {}),
    ("BDTCN", 8, 256, 128, {}),
    ("SSTDPN", 8, 500, 125, {}),
    ("AttentionBaseNet", 8, 500, 125, {}),
    ("SincShallowNet", 8, 500, 250, {}),
    ("EEGMiner", 8, 256, 128, {}),
    ("SleepStagerChambon2018", 2, 3000, 100, {}),
    ("SleepStagerBlanco2020", 2, 3000, 100, {}),
    ("DeepSleepNet", 1, 3000, 100, {}),
    ("AttnSleep", 1, 3000, 100, {}),
    ("USleep", 2, 3000, 100, {}),
    ("TCFormer", 8, 500, 125, {}),
    ("DGCNN", 8, 256, 128, {}),
    ("MEDFormer", 8, 256, 128, {}),
    ("SignalJEPA_PreLocal", 8, 512, 128, {}),
    ("BENDR", 8, 512, 128, {}),
    ("CBraMod", 8, 800, 200, {}),
):
    add("braindecode", name, _model(name, channels, times, rate, options))
