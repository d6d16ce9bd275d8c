//! What a picture shows: panels in rows with the same series.

/// A picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The legend, in the order of the values in each panel.
    pub(crate) series: Vec<Series>,
    pub(crate) panels: Vec<Panel>,
    /// Panels in a row.
    pub(crate) columns: usize,
}

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Which colour: series that belong together share one.
    pub(crate) colour: usize,
    /// Dashed line, or a bar that is an outline.
    pub(crate) light: bool,
}

/// One diagram with axes of its own.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// Below the x axis.
    pub(crate) x_label: String,
    pub(crate) kind: Kind,
    /// `values[series][x]`; `None` was not measured.
    pub(crate) values: Vec<Vec<Option<f64>>>,
}

/// Bars or dots over names, or lines over numbers (on a logarithmic axis), or curves over many numbers (on a
/// plain axis) with names at some of them.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Bars(Vec<String>),
    Dots(Vec<String>),
    Lines(Vec<f64>),
    #[cfg(feature = "servers")]
    Curves {
        xs: Vec<f64>,
        marks: Vec<(f64, String)>,
    },
}
