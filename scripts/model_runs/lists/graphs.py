"""torch_geometric: its models, and convolutions two deep, on a graph of 20 nodes; no compiled extension is needed."""

from model_runs.entries import Case, add, integers, uniform


def _edges(nodes=20, count=60):
    import torch

    chosen = integers(nodes, 2, count)
    return torch.cat([chosen, chosen.flip(0)], 1)


def _model(name, options):
    def make():
        from torch_geometric.nn import models

        return Case(getattr(models, name)(**options), (uniform(20, 8), _edges()))

    return make


def _convolutions(name, options, extra=()):
    def make():
        import torch
        from torch_geometric import nn

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = getattr(nn, name)(8, 16, **options)
                self.second = getattr(nn, name)(16, 4, **options)

            def forward(self, x, *graph):
                return self.second(torch.relu(self.first(x, *graph)), *graph)

        return Case(Network(), (uniform(20, 8), _edges(), *(give() for give in extra)))

    return make


def _pooled():
    """Graphs as a batch: convolution, top-k pooling, readout."""
    import torch
    from torch_geometric import nn

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.pool, self.head = nn.GraphConv(8, 16), nn.TopKPooling(16, 0.5), torch.nn.Linear(32, 3)

        def forward(self, x, edges, batch):
            x = torch.relu(self.convolution(x, edges))
            x, _, _, batch, _, _ = self.pool(x, edges, None, batch)
            return self.head(torch.cat([nn.global_mean_pool(x, batch), nn.global_max_pool(x, batch)], 1))

    first = integers(10, 2, 20)
    return Case(Network(), (uniform(20, 8), torch.cat([first, first + 10], 1), torch.arange(2).repeat_interleave(10)))


def _graph_unet():
    from torch_geometric.nn.models import GraphUNet

    return Case(GraphUNet(8, 16, 4, 2, 0.5), (uniform(20, 8), _edges()))


def _light():
    from torch_geometric.nn.models import LightGCN

    return Case(LightGCN(20, 8, 2), (_edges(),))


def _schnet():
    import torch
    from torch_geometric.nn.models import SchNet

    # Without the compiled torch-cluster, the graph of near atoms is given as a function.
    def near(positions, batch):
        pairs = torch.combinations(torch.arange(len(positions))).T
        pairs = torch.cat([pairs, pairs.flip(0)], 1)
        return pairs, (positions[pairs[0]] - positions[pairs[1]]).norm(dim=-1)

    return Case(SchNet(16, 16, 2, 8, interaction_graph=near), (integers(9, 7, low=1), uniform(7, 3, high=3.0)))


def _autoencoder():
    """Links predicted from a GCN's embeddings."""
    import torch
    from torch_geometric.nn import GAE, GCNConv

    edges = _edges()
    model = GAE(GCNConv(8, 8))

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, positive, negative):
            return {"loss": self.model.recon_loss(self.model.encode(x, positive), positive, negative)}

    return Case(Network(), (uniform(20, 8), edges, integers(20, 2, 40)))


_BASIC = dict(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN"):
    add("torch_geometric", name, _model(name, _BASIC))
add("torch_geometric", "GAT, second version", _model("GAT", dict(_BASIC, v2=True)))
add("torch_geometric", "GraphSAGE, largest neighbour", _model("GraphSAGE", dict(_BASIC, aggr="max")))
add("torch_geometric", "SAGEConv with a projection", _convolutions("SAGEConv", dict(aggr="mean", project=True)))
for name, options in {
    "ChebConv": dict(K=2),
    "ARMAConv": {},
    "TAGConv": {},
    "SGConv": {},
    "TransformerConv": {},
    "GraphConv": {},
    "LEConv": {},
    "ResGatedGraphConv": {},
    "ClusterGCNConv": {},
    "GENConv": {},
    "FiLMConv": {},
    "SuperGATConv": {},
    "FeaStConv": {},
    "MFConv": {},
    "GeneralConv": {},
    "EGConv": dict(num_heads=2, num_bases=2),
}.items():
    add("torch_geometric", name, _convolutions(name, options))
add("torch_geometric", "RGCNConv", _convolutions("RGCNConv", dict(num_relations=3), (lambda: integers(3, 120),)))
add("torch_geometric", "top-k pooling", _pooled)
add("torch_geometric", "GraphUNet", _graph_unet)
add("torch_geometric", "LightGCN", _light)
add("torch_geometric", "SchNet", _schnet)
add("torch_geometric", "graph autoencoder", _autoencoder)
